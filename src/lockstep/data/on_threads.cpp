#include "lockstep/data/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/core/cpu.h"

namespace lockstep::data {

void on_threads(std::int64_t count, const std::function<void(std::int64_t item, Sample& sample)>& work,
                std::int64_t at_once) {
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto run = [&] {
    Sample sample;
    try {
      for (std::int64_t first = next.fetch_add(at_once); first < count; first = next.fetch_add(at_once)) {
        for (std::int64_t item = first; item < std::min(first + at_once, count); ++item) {
          sample.scratch.clear();
          work(item, sample);
        }
      }
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  const auto most = std::max<std::int64_t>(1, (count + at_once - 1) / at_once);
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min<std::int64_t>(fair_threads(1), most); ++i) threads.emplace_back(run);
  run();
  for (auto& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

void on_samples(const Dataset& dataset, const std::function<void(std::int64_t index, const Sample& sample)>& work) {
  on_threads(dataset.size(), [&](std::int64_t index, Sample& sample) {
    dataset.read(index, sample);
    work(index, sample);
  });
}

}  // namespace lockstep::data
