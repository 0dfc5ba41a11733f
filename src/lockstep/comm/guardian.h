// lockstep/comm/guardian.h
//
// A small process that outlives ours if ours is killed, and then kills the process
// groups it was told of, and the processes with our mark in their environment: those
// may have left their group, and with us the parent that would find them. It sits in
// a session of its own and no signal but SIGKILL ends it, so neither Ctrl-C nor a kill
// of our whole group takes it along.
#pragma once

#include <sys/types.h>

#include <string>

#include "lockstep/core/handle.h"

namespace lockstep::comm {

class Guardian {
 public:
  Guardian();
  /// A normal end: kills the groups not forgotten yet, then ends.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// To be called by a new process itself, before it can have children: async-signal-safe.
  void guard(pid_t group) const noexcept;
  /// What LOCKSTEP_LAUNCH says in the environment of the processes to guard; that of a launcher
  /// around us is part of it.
  const std::string& mark() const noexcept { return mark_; }
  /// The groups so far have ended.
  void forget_all() const noexcept;

 private:
  std::string mark_;
  FileDescriptor pipe_;
  pid_t pid_;
};

}  // namespace lockstep::comm
