// apps/process.h
//
// Runs a program to its end and keeps what it said. Never waits past the deadline,
// and leaves nothing behind: the program gets a process group of its own, which is
// ended when time is up, and a signal when this process dies first.
#pragma once

#include <string>
#include <vector>

namespace lockstep::apps {

struct Outcome {
  int exit_code = 0;  // 128 + signal when killed
  bool timed_out = false;
  std::string output;
  std::string errors;
};

/// `command[0]` is a path. Standard input is empty.
Outcome run_process(const std::vector<std::string>& command, double timeout_s);

/// Why an outcome is a failure, in one line: the first line of its errors that says something.
std::string reason_of(const Outcome& outcome);

}  // namespace lockstep::apps
