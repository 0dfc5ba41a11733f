// apps/bench/report_files.h
//
// The files in which every benchmark leaves its report: --json, --plot, --markdown.
#pragma once

#include <string>

#include <CLI/App.hpp>

#include "bench/report.h"

namespace lockstep::apps {

struct ReportFiles {
  std::string json;
  std::string plot;
  std::string markdown;

  void add_options(CLI::App& command);
  /// Before hours of measuring: throws when a file could not be written at their end.
  void check() const;
  void write(const Report& report, const std::string& title) const;
};

}  // namespace lockstep::apps
