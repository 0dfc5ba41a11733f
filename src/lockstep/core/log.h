// lockstep/core/log.h
//
// One logger for the process, to standard error, with the rank in front once it
// is known. Level from LOCKSTEP_LOG (trace, debug, info, warn, error, off); default info.
#pragma once

#include <memory>

#include <spdlog/spdlog.h>

namespace lockstep {

/// Never null; safe from any thread.
spdlog::logger& log();
/// Puts "[rank]" in front of every line from now on.
void set_log_rank(int rank, int size);

}  // namespace lockstep
