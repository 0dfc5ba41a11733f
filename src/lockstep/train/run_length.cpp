#include "lockstep/train/run_length.h"

#include <algorithm>

namespace lockstep::train {
namespace {

std::int64_t batches_of(std::int64_t samples, std::int64_t batch) {
  return samples / batch + (samples % batch != 0 ? 1 : 0);
}

}  // namespace

RunLength length_of(const TrainerSettings& settings, std::int64_t samples, const Resumed& resumed) {
  const std::int64_t steps_of_epoch = batches_of(samples, settings.batch);
  if (settings.steps > 0) return {settings.steps, steps_of_epoch};
  const auto [epoch, sample] = resumed.position();
  const std::int64_t epochs_left = settings.epochs - epoch;
  if (epochs_left <= 0) return {resumed.step(), steps_of_epoch};
  // "For ever" is a large number of epochs.
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::int64_t whole =
      std::min(epochs_left - 1, kMost / std::max<std::int64_t>(steps_of_epoch, 1)) * steps_of_epoch;
  return {resumed.step() + batches_of(samples - sample, settings.batch) + whole, steps_of_epoch};
}

std::int64_t schedule_lead(const TrainerSettings& settings, std::int64_t samples, const Resumed& resumed) {
  if (!resumed.any() || settings.steps > 0) return 0;
  const auto [epoch, sample] = resumed.position();
  const std::int64_t end_of_epoch = (epoch + 1) * batches_of(samples, settings.batch);
  return end_of_epoch - batches_of(samples - sample, settings.batch) - resumed.step();
}

}  // namespace lockstep::train
