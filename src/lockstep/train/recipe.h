// lockstep/train/recipe.h
//
// A recipe says everything of a run in TOML: data, task, model, optimiser, schedule. Here
// it becomes the objects that a Trainer takes.
#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/config.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

struct RecipeRun {
  TrainingData data;
  std::unique_ptr<Task> task;
  TrainerSettings settings;
};

/// Of data that is there already, instead of the recipe's.
RecipeRun make_run(const Config& recipe, const comm::Communicator& group, TrainingData data);
/// `recipe` must outlive the run. Fault::Usage on a key that nobody knows, proposing the nearest; on all ranks alike.
RecipeRun make_run(const Config& recipe, const comm::Communicator& group);

}  // namespace lockstep::train
