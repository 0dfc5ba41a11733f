#include "lockstep/profile/span.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "lockstep/core/error.h"
#include "lockstep/profile/trace.h"

namespace lockstep::profile {
namespace detail {

constinit std::atomic<Mode> mode{Mode::Off};
constinit thread_local Thread* this_thread = nullptr;

}  // namespace detail

namespace {

using detail::Kind;
using detail::Mode;

constexpr std::int64_t kRingEvents = 1 << 16;
constexpr std::int64_t kLargestRing = 1 << 24;

// Plain words, accessed through atomic_ref: calloc then hands out pages that cost
// nothing until touched, where an array of std::atomic would have to be constructed.
struct Entry {
  std::uint64_t name;
  std::uint64_t start_and_kind;  // ticks * 4 + kind; 2^62 ticks are decades
  std::uint64_t end;
  std::uint64_t argument;
};

// A sequence lock without a lock: the writer stores entries with release order and
// then `written`; a reader copies with acquire order and reads `written` once more.
// Seeing any word of entry i, it also sees written >= i, so it knows which of its
// copies may have been overwritten meanwhile.
struct alignas(64) ThreadLog : detail::Thread {
  std::atomic<const char*> name{nullptr};
  std::atomic<Entry*> entries{nullptr};
  std::uint64_t mask = 0;                    // set before `entries`
  std::atomic<std::uint64_t> written{0};     // by the thread itself
  std::atomic<std::uint64_t> first_kept{0};  // by clear()
};

/// A reading of both clocks at one moment.
struct Anchor {
  std::uint64_t ticks = 0;
  std::int64_t ns = 0;
};

// Never destroyed: threads may outlive static destructors, and slots are promised to stay.
struct Process {
  std::mutex mutex;
  std::vector<ThreadLog*> threads;
  std::unordered_set<std::string> names;
  std::string name = program_invocation_short_name;
  int rank = -1;
  std::atomic<std::int64_t> ring_events{kRingEvents};
  Mode clock = Mode::Off;  // chosen by the first enable()
  Anchor anchor;           // taken by it
};

Process& process() {
  static auto* const instance = new Process;
  return *instance;
}

std::int64_t clock_ns(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

/// True where the time stamp counter runs at one rate on all cores and through sleep states.
bool tsc_is_a_clock() {
  const char* wanted = std::getenv("LOCKSTEP_TRACE_CLOCK");
  if (wanted != nullptr && std::string_view(wanted) == "system") return false;
#if defined(__x86_64__)
  // Linux shows this bit as constant_tsc and nonstop_tsc.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000007, &a, &b, &c, &d) == 0 || (d & (1U << 8)) == 0) return false;
  // The kernel falls back to these after it saw counters of two sockets disagree.
  std::string source;
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> source;
  return source != "hpet" && source != "acpi_pm" && source != "jiffies";
#else
  return false;
#endif
}

/// What `read` answers and the `clock` in the middle of it: the tightest of a few
/// attempts, since the thread may be interrupted in between.
template <class Read>
Anchor take_anchor(Mode clock, Read read) {
  Anchor best;
  auto best_width = std::numeric_limits<std::uint64_t>::max();
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto before = detail::ticks(clock);
    const std::int64_t answer = read();
    const auto width = detail::ticks(clock) - before;
    if (width < best_width) {
      best_width = width;
      best = {before + width / 2, answer};
    }
  }
  return best;
}

Anchor monotonic_anchor(Mode clock) {
  return take_anchor(clock, [] { return clock_ns(CLOCK_MONOTONIC); });
}

std::int64_t realtime_minus_monotonic_ns() {
  const auto anchor = take_anchor(Mode::System, [] { return clock_ns(CLOCK_REALTIME); });
  return anchor.ns - static_cast<std::int64_t>(anchor.ticks);
}

/// Ticks to nanoseconds of CLOCK_REALTIME. The rate comes from readings before the
/// first event and after the last, so no event is ever off by more than a reading.
class TickConverter {
 public:
  TickConverter(Mode clock, Anchor begin) : begin_(begin), realtime_minus_monotonic_(realtime_minus_monotonic_ns()) {
    if (clock != Mode::Tsc) return;
    const auto end = monotonic_anchor(clock);
    const auto elapsed = static_cast<double>(end.ns - begin.ns);
    if (end.ticks > begin.ticks) ns_per_tick_ = elapsed / static_cast<double>(end.ticks - begin.ticks);
  }

  std::int64_t realtime_ns(std::uint64_t ticks) const noexcept {
    // Signed: a thread may have read its counter just before the anchor was taken.
    const auto since = static_cast<double>(static_cast<std::int64_t>(ticks - begin_.ticks));
    return begin_.ns + static_cast<std::int64_t>(since * ns_per_tick_) + realtime_minus_monotonic_;
  }

 private:
  Anchor begin_;
  std::int64_t realtime_minus_monotonic_;
  double ns_per_tick_ = 1;
};

void store(std::uint64_t& word, std::uint64_t value) noexcept {
  std::atomic_ref(word).store(value, std::memory_order_release);
}
std::uint64_t load(std::uint64_t& word) noexcept { return std::atomic_ref(word).load(std::memory_order_acquire); }

/// Gives the thread its ring; null without memory, and then its events are lost.
Entry* allocate_ring(ThreadLog& log) noexcept {
  const auto count = std::bit_ceil(static_cast<std::uint64_t>(process().ring_events.load()));
  auto* entries = static_cast<Entry*>(std::calloc(count, sizeof(Entry)));
  if (entries == nullptr) return nullptr;
  log.mask = count - 1;
  log.entries.store(entries, std::memory_order_release);
  return entries;
}

struct Copy {
  std::vector<Entry> entries;
  std::uint64_t overwritten = 0;
};

Copy copy_ring(const ThreadLog& log) {
  Copy copy;
  Entry* const ring = log.entries.load(std::memory_order_acquire);
  if (ring == nullptr) return copy;
  const auto capacity = log.mask + 1;
  const auto kept_from = log.first_kept.load(std::memory_order_relaxed);
  const auto end = log.written.load(std::memory_order_acquire);
  const auto oldest = [&](std::uint64_t written) {
    return std::max(kept_from, written < capacity ? 0 : written - capacity + 1);
  };
  const auto begin = oldest(end);
  for (auto i = begin; i < end; ++i) {
    Entry& entry = ring[i & log.mask];
    copy.entries.push_back({load(entry.name), load(entry.start_and_kind), load(entry.end), load(entry.argument)});
  }
  // What the thread overwrote while we copied may be a mixture of two events.
  const auto intact = std::clamp(oldest(log.written.load(std::memory_order_relaxed)), begin, std::max(begin, end));
  copy.entries.erase(copy.entries.begin(), copy.entries.begin() + static_cast<std::ptrdiff_t>(intact - begin));
  copy.overwritten = intact - kept_from;
  return copy;
}

/// Numbers names by their text: the same literal in two files has two addresses.
class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}

  std::uint32_t index(const char* name) {
    if (const auto known = by_address_.find(name); known != by_address_.end()) return known->second;
    const auto [place, added] = by_text_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (added) names_.emplace_back(name);
    return by_address_[name] = place->second;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<const char*, std::uint32_t> by_address_;
  std::unordered_map<std::string_view, std::uint32_t> by_text_;
};

}  // namespace

namespace detail {

Thread& attach() {
  auto log = std::make_unique<ThreadLog>();
  const std::lock_guard lock(process().mutex);
  process().threads.push_back(log.get());
  this_thread = log.release();
  return *this_thread;
}

std::uint64_t system_ticks() noexcept { return static_cast<std::uint64_t>(clock_ns(CLOCK_MONOTONIC)); }

void record(Thread& thread, Kind kind, const char* name, std::uint64_t start, std::uint64_t end,
            std::int64_t argument) noexcept {
  auto& log = static_cast<ThreadLog&>(thread);
  Entry* ring = log.entries.load(std::memory_order_relaxed);
  if (ring == nullptr) [[unlikely]] {
    ring = allocate_ring(log);
    if (ring == nullptr) return;
  }
  const auto index = log.written.load(std::memory_order_relaxed);
  Entry& entry = ring[index & log.mask];
  store(entry.name, reinterpret_cast<std::uintptr_t>(name));
  store(entry.start_and_kind, start << 2 | static_cast<std::uint64_t>(kind));
  store(entry.end, end);
  store(entry.argument, static_cast<std::uint64_t>(argument));
  log.written.store(index + 1, std::memory_order_release);
}

}  // namespace detail

void enable(bool on) {
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  if (on && state.clock == Mode::Off) {
    state.clock = tsc_is_a_clock() ? Mode::Tsc : Mode::System;
    state.anchor = monotonic_anchor(state.clock);
  }
  detail::mode.store(on ? state.clock : Mode::Off, std::memory_order_relaxed);
}

void clear() {
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  for (auto* log : state.threads) log->first_kept.store(log->written.load(), std::memory_order_relaxed);
}

void set_ring_events(std::int64_t count) {
  if (count < 2 || count > kLargestRing) {
    fail(Fault::Usage, "a ring of " + std::to_string(count) + " events, expected 2 to " + std::to_string(kLargestRing));
  }
  process().ring_events.store(count);
}

const char* intern(const std::string& name) {
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  return state.names.insert(name).first->c_str();
}

void name_thread(const std::string& name) {
  static_cast<ThreadLog&>(detail::attached()).name.store(intern(name), std::memory_order_release);
}

void name_process(const std::string& name, int rank) {
  auto& state = process();
  const std::lock_guard lock(state.mutex);
  state.name = name;
  state.rank = rank;
}

const std::atomic<const char*>& current_span_slot() { return detail::attached().current; }

ProcessEvents snapshot() {
  auto& state = process();
  ProcessEvents result;
  std::vector<ThreadLog*> logs;
  Mode clock = Mode::Off;
  Anchor anchor;
  {
    // Only for the list: a thread that starts now waits for no copying.
    const std::lock_guard lock(state.mutex);
    logs = state.threads;
    clock = state.clock;
    anchor = state.anchor;
    result.name = state.name;
    result.rank = state.rank;
  }
  std::vector<Copy> copies;
  for (const auto* log : logs) copies.push_back(copy_ring(*log));

  const TickConverter converter(clock, anchor);
  NameTable names(result.names);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    ThreadEvents thread;
    const char* name = logs[i]->name.load(std::memory_order_acquire);
    thread.name = name != nullptr ? name : "thread " + std::to_string(i);
    thread.overwritten = static_cast<std::int64_t>(copies[i].overwritten);
    for (const auto& entry : copies[i].entries) {
      Event event;
      event.kind = static_cast<Kind>(entry.start_and_kind & 3);
      event.name = names.index(reinterpret_cast<const char*>(static_cast<std::uintptr_t>(entry.name)));
      event.start_ns = converter.realtime_ns(entry.start_and_kind >> 2);
      // Cores may see counters a few ticks apart.
      const auto end_ns = converter.realtime_ns(entry.end);
      if (event.kind == Kind::Span) {
        event.duration_ns = std::max<std::int64_t>(end_ns - event.start_ns, 0);
        event.bytes = static_cast<std::int64_t>(entry.argument);
      } else if (event.kind == Kind::Counter) {
        event.value = std::bit_cast<double>(entry.argument);
      }
      thread.events.push_back(event);
    }
    result.threads.push_back(std::move(thread));
  }
  return result;
}

}  // namespace lockstep::profile
