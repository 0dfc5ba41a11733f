#include "lockstep/data/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/core/cpu.h"

namespace lockstep::data {

void on_threads(std::int64_t count, const std::function<void(std::int64_t item, Scratch& scratch)>& work) {
  constexpr std::int64_t kAtOnce = 64;
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    Scratch scratch;
    try {
      for (std::int64_t first = next.fetch_add(kAtOnce); first < count; first = next.fetch_add(kAtOnce)) {
        for (std::int64_t item = first; item < std::min(first + kAtOnce, count); ++item) {
          scratch.clear();
          work(item, scratch);
        }
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  const auto most = std::max<std::int64_t>(1, (count + kAtOnce - 1) / kAtOnce);
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(fair_threads(1), most); ++i) threads.emplace_back(run);
  run();
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace lockstep::data
