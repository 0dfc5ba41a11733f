#include "lockstep/comm/endpoint.h"

#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/background_thread.h"
#include "lockstep/comm/tensor_values.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
// A waiter looks around for a reason after this long, and then this often.
constexpr std::int64_t kExamineAfter = 20 * kMillisecond;
constexpr std::int64_t kExamineEvery = 100 * kMillisecond;
constexpr int kRoundsBeforeExamining = 40;

void nap(std::int64_t nanoseconds) {
  const timespec time{0, nanoseconds};
  nanosleep(&time, nullptr);
}

}  // namespace

Endpoint::Endpoint(std::shared_ptr<Segment> segment, int local_rank, EndpointOptions options)
    : segment_(std::move(segment)),
      local_rank_(local_rank),
      options_(std::move(options)),
      arena_(std::make_shared<Arena>(segment_, segment_->threads() ? nullptr : segment_->arena(local_rank),
                                     segment_->arena_bytes())),
      tuning_(segment_->header().calibration[0] != 0 ? Tuning::from_json(segment_->header().calibration) : Tuning{}) {
  // With more ranks than cores whoever spins keeps the awaited rank from running. With
  // enough cores whoever sleeps is late at the next meeting: to wake a halted core took
  // 0.3 ms on a virtual machine, and ranks that waited for it fell asleep in turn.
  const bool crowded = segment_->ranks() > segment_->header().usable_cpus;
  spins_ = crowded ? 10 : 4000;
  yields_ = crowded ? 50 : 20'000;
  // Cores for every rank of the host are dealt out; fewer are for all of them.
  auto& cpus = options_.comm_cpus;
  const std::size_t share = cpus.size() / static_cast<std::size_t>(segment_->ranks());
  if (share > 0) {
    const auto first = cpus.begin() + static_cast<std::ptrdiff_t>(share) * local_rank_;
    cpus = std::vector<int>(first, first + static_cast<std::ptrdiff_t>(share));
  }
}

Endpoint::~Endpoint() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  segment_->ring(local_rank_);
  if (thread_.joinable()) thread_.join();
  // A peer may be in its last collective there.
  for (Grave& grave : graves_) outlive(std::move(grave.block));
}

std::shared_ptr<std::byte> Endpoint::allocate(std::size_t bytes) {
  if (segment_->threads()) {
    constexpr std::align_val_t kAlignment{4096};
    auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlignment));
    return {memory, [](std::byte* piece) { ::operator delete(piece, kAlignment); }};
  }
  return {arena_->allocate(bytes), [arena = arena_](std::byte* piece) { arena->release(piece); }};
}

std::shared_ptr<std::byte> Endpoint::allocate_zeroed(std::size_t bytes) {
  if (segment_->threads()) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) fail_errno(fmt::format("cannot map {} bytes for a group of ranks", bytes), errno);
    return {static_cast<std::byte*>(memory), [bytes](std::byte* piece) { munmap(piece, bytes); }};
  }
  return {arena_->allocate_zeroed(bytes), [arena = arena_](std::byte* piece) { arena->release(piece); }};
}

void Endpoint::bury(std::shared_ptr<std::byte> channel, int members) {
  const std::lock_guard lock(graves_mutex_);
  std::erase_if(graves_, [](const Grave& grave) {
    return Channel(grave.block.get(), grave.members).left().load() == static_cast<std::uint32_t>(grave.members);
  });
  graves_.push_back({std::move(channel), members});
}

void Endpoint::fail_for_all(const std::string& message) const {
  segment_->abort(options_.world_rank, exit_code::kFailed, Fault::Comm, message);
  // Another rank may be about to finish writing its own, unless it was killed in that moment.
  const std::int64_t until = monotonic_ns() + 500 * kMillisecond;
  while (!segment_->aborted() && monotonic_ns() < until) spin_pause();
  if (segment_->aborted()) segment_->throw_abort();
  fail(Fault::Comm, message);
}

void Endpoint::begin(Operation& operation, int spins) const {
  operation.task = operation.backend.run(operation.request);
  operation.task_state.spins = spins;
  operation.task_state.shares_thread = operation.on_thread;
  operation.task.start(operation.task_state);
  if (operation.task.done()) operation.task.rethrow();
}

void Endpoint::examine(Operation& operation) const {
  const std::int64_t now = monotonic_ns();
  if (operation.waiting_since_ns == 0) {
    operation.waiting_since_ns = operation.examined_ns = now;
    return;
  }
  const bool first = operation.examined_ns == operation.waiting_since_ns;
  if (now - operation.examined_ns < (first ? kExamineAfter : kExamineEvery)) return;
  operation.examined_ns = now;
  const Descriptor& descriptor = operation.request.descriptor;
  StatusPage& page = segment_->status(local_rank_);
  if (page.waiting_for.empty()) page.waiting_for.set(descriptor.text());
  operation.backend.examine(operation);

  const double waited_s = static_cast<double>(now - operation.waiting_since_ns) * 1e-9;
  if (options_.timeout_s <= 0 || waited_s < options_.timeout_s) return;
  std::string who = operation.backend.absentees(operation);
  if (descriptor.ends_run()) {
    // A rank may take its time between its last collective and its end.
    if (!operation.named_stragglers)
      log().warn("rank {} has waited {:.1f} s for the end of the run: {}", options_.world_rank, waited_s, who);
    operation.named_stragglers = true;
    return;
  }
  if (who.empty()) who = "every rank has called it, but it does not end";
  fail_for_all(
      fmt::format("rank {} has waited {:.1f} s in {}: {}", options_.world_rank, waited_s, descriptor.text(), who));
}

// Nothing could go on: gives the core away, for longer the longer it lasts.
void Endpoint::pause(std::span<Operation* const> operations, int& rounds, std::uint32_t rings_seen) const {
  constexpr int kPolls = 2000;
  ++rounds;
  if (rounds < yields_) {
    sched_yield();
    return;
  }
  const bool polled = std::any_of(operations.begin(), operations.end(), [](const Operation* operation) {
    return operation->task_state.waiter != nullptr && !operation->task_state.waiter->rings();
  });
  if (polled) {
    rounds < kPolls ? static_cast<void>(sched_yield()) : nap(100'000);
  } else {
    const Sleep sleep(*segment_, local_rank_, rings_seen);
    // A look may throw, and nobody catches it here: the next step() of the operation throws it again.
    const auto ready = [](Operation* operation) {
      try {
        return operation->task_state.waiter == nullptr || operation->task_state.waiter->ready() || operation->abandoned;
      } catch (...) {
        return true;
      }
    };
    sleep.wait([&] { return segment_->aborted() || std::any_of(operations.begin(), operations.end(), ready); },
               rounds < yields_ + 2 ? kExamineAfter : kExamineEvery);
  }
}

void Endpoint::settle(Operation& operation) const {
  for (const auto& [to, from] : operation.copies_back) copy_values(to, from);
  waits_no_more(operation);
}

// The time-out is for a wait, not for all waits of a long collective together.
void Endpoint::waits_no_more(Operation& operation) const {
  if (operation.waiting_since_ns == 0) return;
  operation.waiting_since_ns = 0;
  segment_->status(local_rank_).waiting_for.clear();
}

void Endpoint::outlive(std::shared_ptr<void> memory) const {
  if (segment_->threads()) {
    segment_->keep(std::move(memory));
    return;
  }
  // For ever: nobody tells when a process or the network has let go.
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

void Endpoint::outlive(const at::Tensor& tensor) const { outlive(std::make_shared<at::Tensor>(tensor)); }

void Endpoint::run(Operation& operation) {
  // Peers that have not heard yet still read what this rank announced last.
  if (segment_->aborted()) segment_->throw_abort();
  begin(operation, spins_);
  Operation* const alone = &operation;
  for (int rounds = 0; !operation.task.done();) {
    if (segment_->aborted()) segment_->throw_abort();
    const std::uint32_t rings_seen = segment_->rings(local_rank_);
    if (operation.step()) {
      waits_no_more(operation);
      rounds = 0;
    } else {
      pause({&alone, 1}, rounds, rings_seen);
      if (rounds > kRoundsBeforeExamining) examine(operation);
    }
  }
  settle(operation);
}

void Endpoint::enlist(OperationQueue& queue) {
  const std::lock_guard lock(mutex_);
  queues_.push_back(&queue);
}

void Endpoint::enqueue(OperationQueue& queue, std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    queue.operations.push_back(std::move(operation));
    queue.length.fetch_add(1, std::memory_order_relaxed);
    if (!thread_.joinable()) thread_ = start_background_thread("lockstep-comm", [this] { communication_loop(); });
  }
  changed_.notify_all();
  segment_->ring(local_rank_);
}

void Endpoint::finish(OperationQueue& queue, Operation& operation, std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    operation.error = std::move(error);
    for (const auto& tensor : operation.tensors) {
      if (operation.error) outlive(tensor);
    }
    operation.task = Task();  // frees what the coroutine holds
    queue.operations.pop_front();
    queue.length.fetch_sub(1, std::memory_order_release);
    operation.state.store(Operation::State::Done, std::memory_order_release);
  }
  changed_.notify_all();
  segment_->ring(local_rank_);
}

void Endpoint::wait(OperationQueue& queue, Operation& operation) {
  bool here = false;
  if (operation.state.load(std::memory_order_acquire) != Operation::State::Done) {
    const std::lock_guard lock(mutex_);
    if (operation.state == Operation::State::Queued && queue.operations.front().get() == &operation) {
      operation.state = Operation::State::Running;
      here = true;
    }
  }
  if (here) {
    std::exception_ptr error;
    try {
      run(operation);
    } catch (...) {
      error = std::current_exception();
    }
    finish(queue, operation, error);
  } else {
    const auto done = [&] { return operation.state.load(std::memory_order_acquire) == Operation::State::Done; };
    for (int i = 0; i < spins_ && !done(); ++i) spin_pause();
    if (!done()) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, done);
    }
  }
  if (operation.error) std::rethrow_exception(operation.error);
}

void Endpoint::retire(OperationQueue& queue, bool abandon) {
  std::unique_lock lock(mutex_);
  if (abandon) {
    for (auto& operation : queue.operations) operation->abandoned = true;
    lock.unlock();
    segment_->ring(local_rank_);
    lock.lock();
  }
  changed_.wait(lock, [&] { return queue.operations.empty(); });
  std::erase(queues_, &queue);
}

void Endpoint::communication_loop() {
  profile::name_thread("comm");
  if (!options_.comm_cpus.empty()) bind_to(options_.comm_cpus);
  constexpr int kSpinsBesideOthers = 100;
  struct Turn {
    OperationQueue* queue;
    std::shared_ptr<Operation> operation;
  };
  std::vector<Turn> turns;
  std::vector<Operation*> waiting;
  int rounds = 0;
  for (;;) {
    std::uint32_t rings_seen = 0;
    {
      std::unique_lock lock(mutex_);
      const auto collect = [&] {
        turns.clear();
        for (OperationQueue* queue : queues_) {
          if (queue->operations.empty()) continue;
          auto& operation = queue->operations.front();
          if (operation->state == Operation::State::Queued) operation->on_thread = true;
          if (operation->on_thread) turns.push_back({queue, operation});
        }
        return stopping_ || !turns.empty();
      };
      changed_.wait(lock, collect);
      if (stopping_) return;
      rings_seen = segment_->rings(local_rank_);  // whoever comes from here on rings later
      for (auto& turn : turns) {
        if (turn.operation->state == Operation::State::Queued) turn.operation->state = Operation::State::Running;
      }
    }
    bool moved = false;
    waiting.clear();
    for (auto& [queue, operation] : turns) {
      try {
        if (segment_->aborted()) segment_->throw_abort();
        if (operation->abandoned) fail(Fault::Comm, "the communicator was destroyed before its collective ended");
        if (operation->task_state.waiter == nullptr) {  // not begun
          const Descriptor& descriptor = operation->request.descriptor;
          operation->interval.emplace(name_of(descriptor.collective),
                                      descriptor.count * static_cast<std::int64_t>(operation->request.element_bytes));
          begin(*operation, kSpinsBesideOthers);
          moved = true;
        } else if (operation->step()) {
          waits_no_more(*operation);
          operation->rounds_waited = 0;
          moved = true;
        } else {
          // Also while others go on: a stuck collective shall be named in time.
          if (++operation->rounds_waited > kRoundsBeforeExamining) examine(*operation);
          waiting.push_back(operation.get());
        }
        if (operation->task.done()) {
          settle(*operation);
          operation->interval->end();
          finish(*queue, *operation, nullptr);
        }
      } catch (...) {
        finish(*queue, *operation, std::current_exception());
        moved = true;
      }
    }
    if (moved) {
      rounds = 0;
    } else {
      pause(waiting, rounds, rings_seen);
    }
  }
}

}  // namespace lockstep::comm
