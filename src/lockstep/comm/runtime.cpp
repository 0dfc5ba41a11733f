#include "lockstep/comm/runtime.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include "lockstep/comm/clock_offsets.h"
#include "lockstep/comm/environment.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/comm/watchdog.h"
#include "lockstep/comm/world.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/file.h"
#include "lockstep/core/log.h"
#include "lockstep/core/math_kernels.h"
#include "lockstep/core/text.h"
#include "lockstep/profile/span.h"
#include "lockstep/profile/trace.h"

namespace lockstep::comm {
namespace {

/// A thread can only be pinned to what the host and the cpuset around this process allow.
void check_pinning(const std::string& text, const std::vector<int>& cpus) {
  bool possible = true;
  std::thread([&] {
    try {
      bind_to(cpus);
    } catch (const Error&) {
      possible = false;
    }
  }).join();
  if (!possible) {
    fail(Fault::Usage,
         fmt::format("{}={}: this process may not run there; name CPUs that 'lockstep doctor' shows as usable",
                     environment::kCommCpus, text));
  }
}

WorldOptions options_from_environment() {
  environment::check_choice("LOCKSTEP_LOG", {"trace", "debug", "info", "warn", "error", "off"});
  environment::check_choice("LOCKSTEP_TRACE_CLOCK", {"system", "counter"});
  given_tuning();  // before the ranks meet: later one of them alone would end
  WorldOptions options;
  options.timeout_s = environment::get_seconds(environment::kTimeout, options.timeout_s);
  if (const auto cpus = environment::get(environment::kCommCpus)) {
    for (const auto& cpu : split(*cpus, ',')) {
      options.comm_cpus.push_back(static_cast<int>(parse_integer(environment::kCommCpus, cpu, 0, 1 << 20)));
    }
    check_pinning(*cpus, options.comm_cpus);
  }
  return options;
}

// Wrong use goes wrong for all of a host before the ranks have met. Anything else may be the
// trouble of one rank alone.
void say_for_host(const Error& error) {
  if (error.fault() == Fault::Usage && !environment::speaks_for_host()) return;
  fmt::print(stderr, "lockstep: {}\n", error.what());
}

// The Runtime of the process, for an exception that nobody catches.
Runtime* the_runtime = nullptr;

[[noreturn]] void end_run() noexcept {
  int code = exit_code::kFailed;
  if (std::current_exception() != nullptr) {
    const Error error = current_error();
    if (the_runtime != nullptr)
      code = the_runtime->abort(error);
    else
      fmt::print(stderr, "lockstep: {}\n", error.what());
  }
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

Runtime::Runtime(int, char**) : exceptions_at_start_(std::uncaught_exceptions()) {
  // Tensors in huge pages, where the kernel has them: what a step allocates is mapped anew in every step, and by
  // small pages that takes a tenth of it. torch looks at this once.
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);
  choose_math_kernels();
  world_ = std::make_unique<World>(make_world(detect_world(), options_from_environment()));
  set_log_rank(world_->rank, world_->size);
  profile::name_process("rank " + std::to_string(world_->rank), world_->rank);
  if (environment::get(environment::kTrace)) profile::enable(true);
  Watchdog::Options options;
  options.local_rank = world_->local_rank;
  for (int peer = 0; peer < world_->local_size; ++peer)
    options.world_rank_of.push_back(world_->endpoint->world_rank_of(peer));
  options.watches_peers = !environment::get(environment::kSegment).has_value();
  options.on_overdue = [kill_all = world_->kill_all](int code) {
    if (kill_all) kill_all(code);
    _exit(code);
  };
  watchdog_ = std::make_unique<Watchdog>(world_->endpoint->shared_segment(), std::move(options));
  communicator_ = std::make_unique<Communicator>(world_->endpoint, std::move(world_->backend));
  the_runtime = this;
  std::set_terminate(end_run);
  check_trace();
}

Runtime::~Runtime() {
  const bool unwinding = std::uncaught_exceptions() > exceptions_at_start_;
  const Segment& segment = world_->endpoint->segment();
  bool good = !unwinding && !segment.aborted();
  if (good) log_statistics();
  if (good) write_trace();
  if (good && world_->leave) good = leave_together();
  communicator_.reset();
  the_runtime = nullptr;
  if (good && world_->leave) world_->leave();
  segment.status(world_->local_rank).phase = static_cast<std::uint32_t>(good ? RankPhase::Left : RankPhase::Joined);
  watchdog_.reset();
}

int Runtime::rank() const noexcept { return world_->rank; }
int Runtime::size() const noexcept { return world_->size; }
int Runtime::local_rank() const noexcept { return world_->local_rank; }
int Runtime::local_size() const noexcept { return world_->local_size; }

int Runtime::restart() const noexcept {
  const char* count = std::getenv(environment::kRestart);
  return count == nullptr ? 0 : std::atoi(count);
}

// A rank that ends while others wait for it is named like one that calls something else.
bool Runtime::leave_together() {
  try {
    world_->endpoint->segment().status(world_->local_rank).phase = static_cast<std::uint32_t>(RankPhase::Left);
    communicator_->barrier(kEndOfRun);
    return true;
  } catch (const Error& error) {
    end_now(error);  // main() has its good exit code already
  }
}

void Runtime::end_now(const Error& error) noexcept {
  std::fflush(nullptr);
  _exit(abort(error));
}

// Better now than after days of training.
void Runtime::check_trace() {
  const auto path = environment::get(environment::kTrace);
  if (!path || rank() != 0) return;
  try {
    check_can_write(*path);
  } catch (const Error& error) {
    end_now(error);
  }
}

void Runtime::log_statistics() const {
  for (int kind = 0; kind <= static_cast<int>(Collective::Recv); ++kind) {
    const auto& totals = communicator_->statistics(static_cast<Collective>(kind));
    if (totals.calls == 0) continue;
    log().debug("{}: {} calls, {}, {} of them by the calling thread", name_of(static_cast<Collective>(kind)),
                totals.calls, format_bytes(totals.bytes), totals.on_caller);
  }
}

void Runtime::write_trace() {
  const auto path = environment::get(environment::kTrace);
  if (!path) return;
  try {
    const auto blobs = communicator_->gather_bytes(profile::serialize_events());
    // Ranks of one host have one clock.
    const bool one_host = world_->size == world_->local_size;
    const auto offsets = one_host ? std::vector<std::int64_t>() : clock_offsets(*communicator_);
    if (rank() == 0) profile::write_trace(*path, blobs, offsets);
  } catch (Error& error) {
    end_now(error.during("writing the trace of all ranks"));
  }
}

int Runtime::abort(const Error& error) noexcept {
  const Segment& segment = world_->endpoint->segment();
  segment.abort(rank(), error.exit_code(), error.fault(), error.what());
  // The other hosts shall hear of it before MPI sees this process gone and ends theirs its own way.
  if (world_->size > world_->local_size) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Unreadable while another rank writes its own.
  return segment.aborted() ? segment.header().abort.exit_code : error.exit_code();
}

int run_program(int argc, char** argv, const std::function<void(Runtime&)>& body) noexcept {
  try {
    Runtime runtime(argc, argv);
    try {
      body(runtime);
    } catch (...) {
      return runtime.abort(current_error());
    }
    return exit_code::kDone;
  } catch (...) {
    const Error error = current_error();
    say_for_host(error);
    return error.exit_code();
  }
}

}  // namespace lockstep::comm
