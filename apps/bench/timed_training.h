// apps/bench/timed_training.h
//
// Training by the Trainer itself, timed from the end of one step to the end of the next; the slowest rank counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "bench/step_run.h"
#include "bench/train_case.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::apps {

struct TimedTraining {
  StepCount count = {};
  std::vector<std::string> settings = {};  // of the recipe, laid over it
  /// Above 0: so many steps follow those that are timed, in which memory is looked at.
  int memory_steps = 0;

  /// --warm-up, --steps and --set.
  void add_options(CLI::App& command);
};

/// Trains `batch` samples a step in `group`. If that is not `world`, ranks outside of it train on their own, and all
/// meet after each step. Says on all ranks of `world` what the convention of step_run.h has, but for "samples".
nlohmann::json time_training(const TrainCase& one, std::int64_t batch, const TimedTraining& training,
                             comm::Communicator& world, comm::Communicator& group);

}  // namespace lockstep::apps
