#include "bench/worker.h"

#include <string_view>

#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {

std::vector<std::string> launched(const std::string& worker, int ranks, int threads) {
  const std::string program = own_program();
  std::vector<std::string> command = {program, "launch", "-n", std::to_string(ranks)};
  if (threads > 0) command.insert(command.end(), {"--threads", std::to_string(threads)});
  command.insert(command.end(), {"--", program, "bench", worker});
  return command;
}

std::vector<std::string> worker_command(const std::string& variant, int ranks) {
  auto command = launched("allreduce-worker", ranks);
  command.insert(command.end(), {"--variant", variant});
  return command;
}

std::string reason_of_worker(const Outcome& outcome) {
  constexpr std::string_view kPrefix = "lockstep: ";
  constexpr std::string_view kWarning = "lockstep: warning: ";
  for (const auto& line : split(outcome.errors, '\n')) {
    // Who repeats it puts the prefix in front again.
    if (line.starts_with(kPrefix) && !line.starts_with(kWarning) && !outcome.timed_out) {
      return line.substr(kPrefix.size());
    }
  }
  return reason_of(outcome);
}

void fail_worker(const std::string& what, const Outcome& outcome) {
  fail(outcome.exit_code == exit_code::kUsage ? Fault::Usage : Fault::Comm, what + ": " + reason_of_worker(outcome));
}

}  // namespace lockstep::apps
