// lockstep/profile/span.h
//
// A Span says what its thread is doing from here to the end of the scope. Spans of
// a thread nest. The innermost open one is always published, so that a watchdog can
// tell where a stuck thread stands; when recording is on, each span also becomes an
// event as it closes. Events go into a ring per thread, the oldest overwritten;
// nothing here blocks, and all of it may be called from any thread. Events outlive
// their thread. trace.h collects them.
//
// Names are not copied: pass string literals, or intern() what is made at run time.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>

namespace lockstep::profile {

/// Recording is off at first.
void enable(bool on);
inline bool enabled() noexcept;
/// Forgets the events recorded so far.
void clear();
/// Size of rings that threads start from now on, rounded up to a power of two; 65536
/// at first. A ring keeps one event less: the oldest may be just being overwritten.
void set_ring_events(std::int64_t count);

/// A copy of `name` that lives forever, one per distinct text.
const char* intern(const std::string& name);
/// How traces call this thread, and this process.
void name_thread(const std::string& name);
void name_process(const std::string& name, int rank);

/// The name of this thread's innermost open span, or null. Stays valid after the thread's end.
const std::atomic<const char*>& current_span_slot();

/// An instant, and a sample of a quantity that changes over time.
inline void mark(const char* name);
inline void counter(const char* name, double value);

namespace detail {

// Off, or on with the clock that stamps events.
enum class Mode : std::uint8_t { Off, Tsc, System };
enum class Kind : std::uint8_t { Span, Mark, Counter };

/// What a thread publishes; never freed.
struct Thread {
  std::atomic<const char*> current{nullptr};
};

extern std::atomic<Mode> mode;
// Initial-exec: the general model would cost a call per span in a shared library.
// One pointer fits the reserve that the loader keeps for libraries opened late.
extern constinit thread_local Thread* this_thread __attribute__((tls_model("initial-exec")));

Thread& attach();
std::uint64_t system_ticks() noexcept;
/// Appends to the ring of `thread`, which must be the calling one.
void record(Thread& thread, Kind kind, const char* name, std::uint64_t start, std::uint64_t end,
            std::int64_t argument) noexcept;

inline Thread& attached() { return this_thread != nullptr ? *this_thread : attach(); }

inline std::uint64_t ticks(Mode clock) noexcept {
#if defined(__x86_64__)
  if (clock == Mode::Tsc) return __builtin_ia32_rdtsc();
#else
  (void)clock;
#endif
  return system_ticks();
}

}  // namespace detail

class Span {
 public:
  /// `bytes` becomes an argument of the event unless 0.
  [[nodiscard]] explicit Span(const char* name, std::int64_t bytes = 0)
      : thread_(detail::attached()),
        name_(name),
        outer_(thread_.current.load(std::memory_order_relaxed)),
        bytes_(bytes),
        clock_(detail::mode.load(std::memory_order_relaxed)) {
    thread_.current.store(name, std::memory_order_relaxed);
    if (clock_ != detail::Mode::Off) [[unlikely]]
      start_ = detail::ticks(clock_);
  }
  ~Span() {
    thread_.current.store(outer_, std::memory_order_relaxed);
    // Also when recording was switched off meanwhile: the outermost spans are worth most.
    if (clock_ != detail::Mode::Off) [[unlikely]] {
      detail::record(thread_, detail::Kind::Span, name_, start_, detail::ticks(clock_), bytes_);
    }
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  detail::Thread& thread_;
  const char* const name_;
  const char* const outer_;
  const std::int64_t bytes_;
  std::uint64_t start_ = 0;
  const detail::Mode clock_;
};

/// A stretch of time that need not nest: work that one thread carries forward in turns
/// with others. Becomes an event as it ends; not the thread's current span.
class Interval {
 public:
  explicit Interval(const char* name, std::int64_t bytes = 0)
      : name_(name), bytes_(bytes), clock_(detail::mode.load(std::memory_order_relaxed)) {
    if (clock_ != detail::Mode::Off) start_ = detail::ticks(clock_);
  }
  void end() const {
    if (clock_ != detail::Mode::Off)
      detail::record(detail::attached(), detail::Kind::Span, name_, start_, detail::ticks(clock_), bytes_);
  }

 private:
  const char* name_;
  std::int64_t bytes_;
  std::uint64_t start_ = 0;
  detail::Mode clock_;
};

inline bool enabled() noexcept { return detail::mode.load(std::memory_order_relaxed) != detail::Mode::Off; }

inline void mark(const char* name) {
  const auto clock = detail::mode.load(std::memory_order_relaxed);
  if (clock == detail::Mode::Off) return;
  const auto now = detail::ticks(clock);
  detail::record(detail::attached(), detail::Kind::Mark, name, now, now, 0);
}

inline void counter(const char* name, double value) {
  const auto clock = detail::mode.load(std::memory_order_relaxed);
  if (clock == detail::Mode::Off) return;
  const auto now = detail::ticks(clock);
  detail::record(detail::attached(), detail::Kind::Counter, name, now, now, std::bit_cast<std::int64_t>(value));
}

}  // namespace lockstep::profile
