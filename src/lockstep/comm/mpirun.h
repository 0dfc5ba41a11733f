// lockstep/comm/mpirun.h
//
// `lockstep launch --hosts`: the same program on several hosts, through mpirun.
#pragma once

#include <string>
#include <vector>

#include "lockstep/comm/launcher.h"

namespace lockstep::comm {

struct HostSlots {
  std::string host;
  int slots = 1;
};
/// "a:4,b" -> {a, 4}, {b, 1}, each host once; anything else is an Error with Fault::Usage.
std::vector<HostSlots> parse_hosts(const std::string& text);

/// What mpirun (of Open MPI) is called with; `environment` names the variables to hand on.
std::vector<std::string> mpirun_command(const LaunchOptions& options, const std::vector<std::string>& environment);

/// A process that mpirun started becomes `command`, with the variables that ranks of one host get from the
/// launcher itself. Fails with Fault::Usage if it cannot be run.
[[noreturn]] void become_program(const std::vector<std::string>& command);

/// This process becomes mpirun. Fails with Fault::Usage if there is none.
[[noreturn]] void become_mpirun(const LaunchOptions& options);

}  // namespace lockstep::comm
