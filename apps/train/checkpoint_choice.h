// apps/train/checkpoint_choice.h
//
// Which weights of a run a command takes: by default the last ones of its newest checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "lockstep/parallel/parameter.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/run_folder.h"

namespace lockstep::apps {

struct CheckpointChoice {
  bool averaged = false;
  bool best = false;
  std::optional<std::int64_t> step = {};

  void add_to(CLI::App& command) {
    command.add_flag("--ema", averaged, "Those averaged by [callbacks.ema]");
    auto* of_best = command.add_flag("--best", best, "Of the checkpoint with the best validation");
    command.add_option("--step", step, "Of the checkpoint of this step")->excludes(of_best);
  }
};

/// Fault::Usage, naming what there is, if the run has none like that.
train::SavedCheckpoint chosen_checkpoint(const train::RunFolder& run, const CheckpointChoice& choice);
/// Whole, whatever layout has saved them. Fault::Usage if averages are asked for and were not kept.
parallel::Parameters weights_of(const train::SavedCheckpoint& checkpoint, const CheckpointChoice& choice);
/// The same as a file of safetensors, one after another in memory; how many they are.
std::size_t export_weights(const train::SavedCheckpoint& checkpoint, const CheckpointChoice& choice,
                           const std::string& path);

}  // namespace lockstep::apps
