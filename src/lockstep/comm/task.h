// lockstep/comm/task.h
//
// Collectives are coroutines: written as straight code, yet one thread can carry
// several forward, none of them blocking another. A Task runs until it must wait
// for a peer, parks a Waiter with its Operation and suspends; whoever drives the
// Operation looks at the Waiter and resumes. Driven by the calling thread of a
// small collective, it spins in place and hardly ever suspends.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

namespace lockstep::comm {

/// What a suspended Task waits for. ready() may throw: the Task then ends with that.
class Waiter {
 public:
  virtual bool ready() = 0;
  /// Whether whoever makes it ready rings the doorbell; else it must be polled.
  virtual bool rings() const noexcept { return true; }

 protected:
  ~Waiter() = default;
};

/// The state that the coroutines of one collective share with their driver.
struct TaskState {
  Waiter* waiter = nullptr;
  std::coroutine_handle<> suspended;
  int spins = 0;               // looks at a Waiter before the Task suspends
  bool shares_thread = false;  // other collectives wait for the same thread
};

class [[nodiscard]] Task {
 public:
  struct promise_type {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Return {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          if (self.promise().caller) return self.promise().caller;
          return std::noop_coroutine();
        }
        void await_resume() noexcept {}
      };
      return Return{};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }

    // Frames are recycled: an allocation would cost more than the wait of a small collective.
    static void* operator new(std::size_t bytes);
    static void operator delete(void* frame, std::size_t bytes) noexcept;

    TaskState* state = nullptr;
    std::coroutine_handle<> caller;
    std::exception_ptr error;
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// Runs the outermost Task to its first suspension.
  void start(TaskState& state) {
    handle_.promise().state = &state;
    handle_.resume();
  }
  bool done() const noexcept { return handle_.done(); }
  /// Requires done().
  void rethrow() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

  // Awaiting a Task runs it inside the awaiting one.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> caller) noexcept {
    handle_.promise().state = caller.promise().state;
    handle_.promise().caller = caller;
    return handle_;
  }
  void await_resume() const { rethrow(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// co_await Breathe{}: lets the other collectives of the thread have a turn.
class Breathe final : public Waiter {
 public:
  bool ready() override { return true; }
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<Task::promise_type> task) noexcept {
    TaskState& state = *task.promise().state;
    if (!state.shares_thread) return false;
    state.waiter = this;
    state.suspended = task;
    return true;
  }
  void await_resume() noexcept {}
};

/// co_await Until([&] { return arrived(); }): goes on once the condition holds.
template <class Condition, bool kRings = true>
class Until final : public Waiter {
 public:
  explicit Until(Condition condition) : condition_(std::move(condition)) {}
  bool ready() override { return condition_(); }
  bool rings() const noexcept override { return kRings; }

  bool await_ready() { return condition_(); }
  bool await_suspend(std::coroutine_handle<Task::promise_type> task) {
    TaskState& state = *task.promise().state;
    for (int i = 0; i < state.spins; ++i) {
      if (condition_()) return false;
      spin_pause();
    }
    state.waiter = this;
    state.suspended = task;
    return true;
  }
  void await_resume() noexcept {}

 private:
  Condition condition_;
};

/// The same for a condition that nobody rings a doorbell for.
template <class Condition>
Until<Condition, false> polled(Condition condition) {
  return Until<Condition, false>(std::move(condition));
}

}  // namespace lockstep::comm
