#include "lockstep/comm/launcher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fmt/format.h>

#include "lockstep/comm/environment.h"
#include "lockstep/comm/guardian.h"
#include "lockstep/comm/launched_run.h"
#include "lockstep/comm/mpirun.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/signal_inbox.h"
#include "lockstep/comm/world.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

void check(const LaunchOptions& options) {
  if (options.command.empty()) {
    fail(Fault::Usage, "no program to launch; it comes after '--': lockstep launch -n 4 -- program arguments");
  }
  if (options.ranks && *options.ranks < 1) fail(Fault::Usage, fmt::format("-n {}: expected 1 or more", *options.ranks));
  // On several hosts the slots of each are checked.
  if (options.ranks && options.hosts.empty() && *options.ranks > kMostRanksOfHost) {
    fail(Fault::Usage, fmt::format("-n {}: between 1 and {} ranks are possible on one host; see --hosts",
                                   *options.ranks, kMostRanksOfHost));
  }
  const std::vector<std::string> bindings = {"core", "numa", "none"};
  if (!options.bind.empty() && std::find(bindings.begin(), bindings.end(), options.bind) == bindings.end()) {
    fail(Fault::Usage, fmt::format("unknown binding '{}'{}", options.bind, proposal(options.bind, bindings)));
  }
  if (options.threads && *options.threads < 1) {
    fail(Fault::Usage, fmt::format("--threads {}: expected 1 or more", *options.threads));
  }
  if (options.restarts < 0) fail(Fault::Usage, fmt::format("--restarts {}: expected 0 or more", options.restarts));
  constexpr double kMostGrace_s = 86400;
  if (options.grace_s && !(*options.grace_s >= 0 && *options.grace_s <= kMostGrace_s)) {
    fail(Fault::Usage, fmt::format("--grace {}: expected 0 to {} seconds", *options.grace_s, kMostGrace_s));
  }
  if (options.timeout_s && !(*options.timeout_s >= 0)) {
    fail(Fault::Usage, fmt::format("--timeout {}: expected 0 (never) or more seconds", *options.timeout_s));
  }
}

/// A file of ours that landed on a standard stream would be read or written as one, and lost
/// when a rank gets its own.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is this one. It stays open, as if the user had given it.
    if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) fail_errno("cannot open /dev/null", errno);
  }
}

std::vector<CpuSlot> places(const LaunchOptions& options, int ranks) {
  const int cores = static_cast<int>(usable_cores().size());
  const int cpus = static_cast<int>(usable_cpus().size());
  if (options.bind == "core" && ranks > cores) {
    fail(Fault::Usage, fmt::format("--bind core needs a core per rank, but there are {} ranks and {} usable cores; use "
                                   "-n {} or --bind none",
                                   ranks, cores, cores));
  }
  if (ranks > cpus) {
    fmt::print(stderr, "lockstep: warning: {} ranks share {} usable CPU{}: expect them to run in turns\n", ranks, cpus,
               cpus == 1 ? "" : "s");
  }
  const std::string mode = !options.bind.empty() ? options.bind : ranks > cores ? "none" : "core";
  return mode == "none" ? std::vector<CpuSlot>(static_cast<std::size_t>(ranks)) : bind_plan(mode, ranks);
}

LaunchPlan plan_of(const LaunchOptions& options) {
  if (!options.ranks) fail(Fault::Usage, "how many ranks? Say -n N, e.g. lockstep launch -n 4 -- program");
  LaunchPlan plan;
  plan.ranks = *options.ranks;
  plan.command = options.command;
  plan.prefix = options.prefix;
  plan.places = places(options, plan.ranks);
  plan.environment = launch_environment(options, plan.ranks);
  plan.grace_s = options.grace_s.value_or(plan.grace_s);
  plan.timeout_s =
      options.timeout_s.value_or(environment::get_seconds(environment::kTimeout, WorldOptions{}.timeout_s));
  return plan;
}

bool worth_another_try(const RunOutcome& outcome) {
  return !outcome.stopped_by_user && outcome.exit_code != exit_code::kDone && outcome.exit_code != exit_code::kUsage &&
         outcome.exit_code != exit_code::kRequeue;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> launch_environment(const LaunchOptions& options, int ranks_on_host) {
  std::vector<std::pair<std::string, std::string>> variables;
  if (options.timeout_s) variables.emplace_back(environment::kTimeout, fmt::format("{}", *options.timeout_s));
  const std::string threads = std::to_string(options.threads ? *options.threads : fair_threads(ranks_on_host));
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    if (options.threads || !environment::get(name)) variables.emplace_back(name, threads);
  }
  return variables;
}

int launch(const LaunchOptions& options) {
  check(options);
  open_standard_streams();
  if (!options.hosts.empty()) become_mpirun(options);
  const LaunchPlan plan = plan_of(options);
  std::fflush(nullptr);  // children would print it once more
  Guardian guardian;
  SignalInbox signals;
  for (int restart = 0;; ++restart) {
    const RunOutcome outcome = run_once(plan, restart, signals, guardian);
    if (restart == options.restarts || !worth_another_try(outcome)) return outcome.exit_code;
    fmt::print(stderr, "lockstep: starting the run again ({} of {})\n", restart + 1, options.restarts);
  }
}

}  // namespace lockstep::comm
