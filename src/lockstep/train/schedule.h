// lockstep/train/schedule.h
//
// How the learning rate goes through a run: a factor for every step. A new one is one new
// file in schedules/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/core/config.h"
#include "lockstep/core/registry.h"

namespace lockstep::train {

struct RunLength {
  std::int64_t steps = 0;
  std::int64_t steps_of_epoch = 0;
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  /// Of the step with this number, from 0 on.
  virtual double factor(std::int64_t step) const = 0;
  /// After every validation, for those that look at it.
  virtual void observe(double /*validation_loss*/) {}
  /// Whether it never changes without one.
  virtual bool needs_validation() const { return false; }
  /// What it remembers, to go on after a restart.
  virtual std::string state() const { return ""; }
  virtual void set_state(const std::string& /*state*/) {}
  /// As recipes call it; "" of one that no recipe has made.
  std::string name;
};

using ScheduleRegistry =
    Registry<std::unique_ptr<Schedule>(const Config& recipe, const std::string& key, const RunLength& length)>;

/// The one that key.name names ("constant"), its steps counted from the end of the warm-up, which key.warmup_steps or
/// key.warmup_epochs ask for: there the factor grows from key.warmup_start. A rate that was multiplied by
/// `rate_scale`, above 1, for many ranks, has a warm-up without asking, from what it was before on, unless the schedule
/// rises by itself.
std::unique_ptr<Schedule> make_schedule(const Config& recipe, const std::string& key, const RunLength& length,
                                        double rate_scale = 1);

}  // namespace lockstep::train
