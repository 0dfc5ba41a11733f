#include "bench/worker.h"

#include <string_view>

#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {

std::vector<std::string> worker_command(const std::string& variant, int ranks) {
  const std::string program = own_program();
  return {program,     "launch", "-n", std::to_string(ranks), "--", program, "bench", "allreduce-worker",
          "--variant", variant};
}

void fail_worker(const std::string& what, const Outcome& outcome) {
  constexpr std::string_view kPrefix = "lockstep: ";
  constexpr std::string_view kWarning = "lockstep: warning: ";
  const auto fault = outcome.exit_code == exit_code::kUsage ? Fault::Usage : Fault::Comm;
  for (const auto& line : split(outcome.errors, '\n')) {
    // main() puts the prefix in front again.
    if (line.starts_with(kPrefix) && !line.starts_with(kWarning) && !outcome.timed_out) {
      fail(fault, what + ": " + line.substr(kPrefix.size()));
    }
  }
  fail(fault, what + ": " + reason_of(outcome));
}

}  // namespace lockstep::apps
