// lockstep/comm/child_process.h
//
// A program started as the leader of a process group of its own, its output in two
// pipes. Until destruction it is not reaped: as long as it is a zombie nobody else
// gets its number, so that signals to its group cannot hit a stranger. Destruction
// kills what is left of the group.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/guardian.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {

struct ChildOptions {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // "NAME=value", all of it
  std::vector<int> cpus;                 // empty: not bound
  int input = -1;                        // its standard input; -1: /dev/null
  sigset_t signal_mask;
  rlimit open_files;
};

class ChildProcess {
 public:
  /// Returns once the program runs; fails with Fault::Usage if it cannot be run.
  ChildProcess(const ChildOptions& options, const Guardian& guardian);

  pid_t pid() const noexcept { return process_.get(); }
  /// The pipes of its standard output and standard error; to be taken once.
  FileDescriptor take_output() noexcept { return std::move(output_); }
  FileDescriptor take_errors() noexcept { return std::move(errors_); }
  /// How it ended; nothing while it runs.
  struct End {
    bool killed = false;
    int code = 0;  // exit code, or signal if killed
  };
  std::optional<End> end() const;
  /// Sends to every process of the group.
  void signal_group(int signal) const noexcept { ::kill(-pid(), signal); }

 private:
  struct ProcessTraits {
    using Raw = pid_t;
    static Raw empty() noexcept { return -1; }
    static void release(Raw raw) noexcept;
  };

  Handle<ProcessTraits> process_;
  FileDescriptor output_;
  FileDescriptor errors_;
};

/// The environment of this process with `changes` laid over it.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes);

}  // namespace lockstep::comm
