#include "lockstep/core/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep {

void on_threads(int threads, std::int64_t count, std::int64_t at_once,
                const std::function<void(std::int64_t first, std::int64_t last, int thread)>& work) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&](int thread) {
    try {
      for (std::int64_t first = next.fetch_add(at_once); first < count; first = next.fetch_add(at_once)) {
        work(first, std::min(first + at_once, count), thread);
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  const std::int64_t useful = std::max<std::int64_t>(1, (count + at_once - 1) / at_once);
  std::vector<std::thread> others;
  for (int thread = 1; thread < std::min<std::int64_t>(threads, useful); ++thread) others.emplace_back(run, thread);
  run(0);
  for (auto& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep
