// apps/train/lr_options.h
//
// What `lockstep train --find-lr` takes and tells its ranks.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "lockstep/train/lr_finder.h"

namespace lockstep::apps {

struct LrOptions {
  bool find = false;
  train::LrSweep sweep;

  void add_to(CLI::App& command) {
    auto* flag = command.add_flag("--find-lr", find, "Do not train, but find a learning rate; leaves no run behind");
    const auto add = [&](const char* name, auto& value, const char* what) {
      command.add_option(name, value, what)->needs(flag)->capture_default_str();
    };
    add("--lr-from", sweep.from, "The first rate of --find-lr");
    add("--lr-to", sweep.to, "Its last");
    add("--lr-steps", sweep.steps, "How many it tries");
  }
  /// The same for the command line of a rank.
  std::vector<std::string> words() const {
    if (!find) return {};
    return {"--find-lr", fmt::format("--lr-from={}", sweep.from), fmt::format("--lr-to={}", sweep.to),
            fmt::format("--lr-steps={}", sweep.steps)};
  }
};

}  // namespace lockstep::apps
