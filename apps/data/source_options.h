// apps/data/source_options.h
//
// The options by which every data command says how its source is to be read.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "lockstep/data/open.h"
#include "whole_number.h"

namespace lockstep::apps {

struct SourceOptions {
  std::string source;
  data::OpenOptions open;

  void add_to(CLI::App& command) {
    command.add_option("source", source, "File, folder, pattern such as 'part-*.csv', or built-in set")->required();
    command.add_option("--format", open.format, "Of the source, where its name does not say; see 'lockstep list'");
    command.add_option("--window", open.window, "Tokens of a sample, of raw token files")->check(whole_from(1));
    command.add_option("--stride", open.stride, "Tokens from one sample to the next; by default --window")
        ->check(whole_from(1));
    command.add_option("--token-type", open.token_type, "Of raw token files: uint16 or uint32")->capture_default_str();
    command.add_option("--separator", open.separator, "Of CSV; by default found out");
    command.add_flag("!--no-header", open.header, "CSV without a line of names");
  }
};

}  // namespace lockstep::apps
