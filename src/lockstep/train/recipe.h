// lockstep/train/recipe.h
//
// A recipe says everything of a run in TOML: data, task, model, optimiser, schedule. Here
// it becomes the objects that a Trainer takes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/config.h"
#include "lockstep/train/layout.h"
#include "lockstep/train/model_probe.h"
#include "lockstep/train/run_outline.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

struct RecipeRun {
  TrainingData data;
  std::unique_ptr<Task> task;
  TrainerSettings settings;
  Layout layout;                   // what became of the table `parallel`
  std::vector<std::string> notes;  // on it, for the user; of rank 0
  RunFacts facts;
  std::shared_ptr<ModelProbe> probe;  // of the model, which has measured what was asked for
};

/// Of data that is there already, instead of the recipe's.
RecipeRun make_run(const Config& recipe, comm::Communicator& world, TrainingData data,
                   const std::optional<Layout>& before = {});
/// `recipe` must outlive the run. Fault::Usage on a key that nobody knows, proposing the nearest; on all ranks alike.
/// A run that goes on keeps what was measured and chosen `before`, see layout_before().
RecipeRun make_run(const Config& recipe, comm::Communicator& world, const std::optional<Layout>& before = {});

}  // namespace lockstep::train
