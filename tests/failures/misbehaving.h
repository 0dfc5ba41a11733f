// tests/failures/misbehaving.h
//
// A run of misbehave.cpp, watched from outside: when its ranks have ended, what was
// said, and that nothing is left.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "background.h"

namespace lockstep::test {

class Misbehaving {
 public:
  explicit Misbehaving(const std::vector<std::string>& command);

  Background& run() noexcept { return run_; }
  /// Waits until `ranks` ranks are in their loop.
  bool loops(int ranks) const { return run_.waits_for("looping ", ranks); }
  /// Sends a signal to the process of `rank`, which must be there: kill() takes -1 for everybody.
  void signal(int rank, int number) const;
  /// Starts the clock. Without it, it starts when the culprit says "deed".
  void deed();
  /// Seconds from the deed to the end of the last rank, -1 if one runs on after `timeout_s`.
  double until_ranks_end(double timeout_s);
  /// What it all said, both streams.
  std::string words() const { return run_.output() + run_.errors(); }
  /// Waits for the end of the command itself. Its exit code, -1 if it runs on.
  int exit_code();
  /// Checks that the command failed and left nothing. Returns its exit code.
  int expect_nothing_left();

 private:
  std::vector<pid_t> ranks() const;

  std::set<std::string> files_before_;
  Background run_;
  double deed_s_ = 0;
  int exit_code_ = -1;
};

/// The ranks ended `within_s` of the deed, and every one of `parts` was said.
void expect_told(Misbehaving& misbehaving, double within_s, const std::vector<std::string>& parts);

}  // namespace lockstep::test
