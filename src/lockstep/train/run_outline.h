// lockstep/train/run_outline.h
//
// What a recipe says of a run before there are ranks to do it: enough to foretell what it will take.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/core/config.h"
#include "lockstep/models/model.h"
#include "lockstep/train/layout.h"
#include "lockstep/train/layout_choice.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/model_probe.h"
#include "lockstep/train/task.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

struct RunOutline {
  TrainingData data;
  std::shared_ptr<TaskKind> kind;
  models::ModelData model_data;
  MeshRecipe mesh;               // without its mesh
  bool loads_weights = false;    // of a file, into a whole model
  bool fixes_recompute = false;  // it says whether activations are computed again
  std::shared_ptr<ModelProbe> probe;
  /// Where so many ranks share the samples; without what the mesh says.
  std::function<TrainerSettings(int data_ranks)> settings;
};

/// `recipe` outlives it. Fault::Usage as make_run().
RunOutline outline(const Config& recipe, int ranks);
RunOutline outline(const Config& recipe, int ranks, TrainingData data);

RunFacts facts_of(const RunOutline& run);
/// With what the mesh says, but for the mesh itself.
TrainerSettings settings_of(const RunOutline& run, const Layout& layout);
/// Fault::Usage on a layout with which a run would not begin; `sparse`: some gradients come as rows.
void check(const RunOutline& run, const Layout& layout, bool sparse);
/// As the recipe says it, where it does not leave the choice to us, of ranks on these hosts.
Layout given_layout(const RunOutline& run, const std::vector<int>& hosts);
/// Leaves stages where they were found `before`, if the recipe leaves them to be measured, too: sums over others may
/// differ in their last bits. Says what it did, or nothing.
std::string keep_stages(MeshRecipe& mesh, const Layout& layout, const std::optional<Layout>& before);
/// What parallel = "auto" may choose from. `memory_bytes` of a rank, 0: any. `run` outlives it.
LayoutLimits limits_of(const RunOutline& run, const std::vector<int>& hosts, std::int64_t memory_bytes);

}  // namespace lockstep::train
