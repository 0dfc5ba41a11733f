// apps/bench/table.h
//
// A Report on the terminal: medians that fill in while rounds come in, and the
// whole comparison at the end. And the same as Markdown, for the docs.
#pragma once

#include <cstdio>
#include <string>

#include "bench/report.h"

namespace lockstep::apps {

/// "64 KiB", or the workload's name where no size tells them apart: "mlp", "mlp x 2" on two cores.
std::string heading(const Workload& workload);
/// Medians so far, one line per participant and one column per workload.
std::string medians_table(const Report& report);
/// Median, p95, GB/s and ratio of every row, then what was skipped and why.
std::string full_table(const Report& report);
/// Medians and ratios, one column per workload or, where they are many, one line.
std::string markdown_table(const Report& report);

/// Redraws the medians in place on a terminal wide and high enough for them;
/// elsewhere (a log, a pipe) each update is one plain line.
class LiveTable {
 public:
  explicit LiveTable(std::FILE* out);
  /// `doing` says what runs next: "round 2 of 7: openmpi".
  void update(const Report& report, const std::string& doing);
  /// Removes the medians from the terminal, so that the full table can take their place.
  void clear();

 private:
  bool fits(const std::string& text) const;

  std::FILE* out_;
  bool terminal_;
  int drawn_lines_ = 0;
};

}  // namespace lockstep::apps
