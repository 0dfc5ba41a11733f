// lockstep/comm/environment.h
//
// The environment variables by which `lockstep launch` and its ranks speak.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm::environment {

inline constexpr const char kRank[] = "LOCKSTEP_RANK";
inline constexpr const char kSize[] = "LOCKSTEP_SIZE";
inline constexpr const char kLocalRank[] = "LOCKSTEP_LOCAL_RANK";
inline constexpr const char kLocalSize[] = "LOCKSTEP_LOCAL_SIZE";
inline constexpr const char kSegment[] = "LOCKSTEP_SEGMENT";     // descriptor of the shared segment
inline constexpr const char kTimeout[] = "LOCKSTEP_TIMEOUT";     // seconds; 0: never
inline constexpr const char kRestart[] = "LOCKSTEP_RESTART";     // how often the run was started again
inline constexpr const char kBackend[] = "LOCKSTEP_BACKEND";     // self, shm, mpi or hier
inline constexpr const char kCommCpus[] = "LOCKSTEP_COMM_CPUS";  // e.g. "3" or "2,3"
inline constexpr const char kTuning[] = "LOCKSTEP_TUNING";       // a tuning table in JSON, instead of the cached one
inline constexpr const char kTrace[] = "LOCKSTEP_TRACE";         // file for the merged trace

inline constexpr const char kLaunch[] = "LOCKSTEP_LAUNCH";  // by which a launcher knows its processes, however remote
inline constexpr const char kLostAfter[] = "LOCKSTEP_LOST_AFTER";  // seconds of silence until a host counts as gone
// For tests: hier takes so many neighbours for a host, wherever they run.
inline constexpr const char kRanksPerHost[] = "LOCKSTEP_RANKS_PER_HOST";

std::optional<std::string> get(const char* name);
/// Before the ranks have met: whether this process shall say what is wrong for all of its host. The
/// others give the first one the time: a process manager ends all when one ends badly.
bool speaks_for_host();
/// Fails with Fault::Usage if it is set to something else than a number in the range.
int get_int(const char* name, int fallback, int lowest, int highest);
double get_seconds(const char* name, double fallback);
void check_choice(const char* name, const std::vector<std::string>& choices);

}  // namespace lockstep::comm::environment
