// tests/launcher/background.h
//
// A program running beside the test, its output readable at any time. Every process
// that comes of it, however remote, carries a mark in its environment.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "lockstep/core/handle.h"

namespace lockstep::test {

bool has(const std::string& text, const std::string& part);
/// Those that do not overlap.
int occurrences(const std::string& text, const std::string& part);

class Background {
 public:
  /// `output` instead of what output() reads.
  explicit Background(const std::vector<std::string>& command, const std::string& input = "/dev/null", int output = -1);
  /// Kills it if it still runs.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  /// Waits for its end; 128 + signal if killed, -1 if it still runs after `timeout_s`.
  int wait(double timeout_s = 30);
  /// Waits until its output holds `text` `count` times.
  bool waits_for(const std::string& text, int count = 1, double timeout_s = 30) const;
  std::string output() const;
  std::string errors() const;
  /// Processes with its mark, zombies not counted.
  std::vector<pid_t> processes() const;
  bool all_gone(double timeout_s) const;
  /// The process of a rank that a launcher started, wherever it runs, of a program by this name; -1 if there is none.
  pid_t rank(int number, const std::string& program = "lockstep") const;

 private:
  std::string mark_;
  FileDescriptor output_;
  FileDescriptor errors_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// What our programs keep in /dev/shm and /tmp while they run. By how names begin: what others of the machine name
/// after us comes and goes.
std::set<std::string> our_files();

struct Answer {
  int code;
  std::string output;
  std::string errors;
};
/// Of a program that runs to its end.
Answer answer_of(const std::vector<std::string>& command, double timeout_s);

}  // namespace lockstep::test
