// apps/mpirun_child.h
//
// On several hosts mpirun takes the place of the process that launches. Here that is a child, so
// that somebody is left who sees the end.
#pragma once

#include "lockstep/comm/launcher.h"

namespace lockstep::apps {

/// comm::launch() with hosts, but it returns. Signals are passed on.
int launch_on_hosts(const comm::LaunchOptions& options);

}  // namespace lockstep::apps
