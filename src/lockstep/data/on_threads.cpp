#include "lockstep/data/on_threads.h"

#include <vector>

#include "lockstep/core/cpu.h"
#include "lockstep/core/on_threads.h"

namespace lockstep::data {

void on_threads(std::int64_t count, const std::function<void(std::int64_t item, Sample& sample)>& work,
                std::int64_t at_once) {
  const int threads = fair_threads(1);
  std::vector<Sample> samples(static_cast<std::size_t>(threads));
  lockstep::on_threads(threads, count, at_once, [&](std::int64_t first, std::int64_t last, int thread) {
    Sample& sample = samples[static_cast<std::size_t>(thread)];
    for (std::int64_t item = first; item < last; ++item) {
      sample.scratch.clear();
      work(item, sample);
    }
  });
}

void on_samples(const Dataset& dataset, const std::function<void(std::int64_t index, const Sample& sample)>& work) {
  on_threads(dataset.size(), [&](std::int64_t index, Sample& sample) {
    dataset.read(index, sample);
    work(index, sample);
  });
}

}  // namespace lockstep::data
