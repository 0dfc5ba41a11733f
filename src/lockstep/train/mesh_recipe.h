// lockstep/train/mesh_recipe.h
//
// How a recipe lays ranks out: parallel = { tensor = 2, pipe = 2, data = "rest" },
// or parallel = "auto".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/config.h"
#include "lockstep/parallel/mesh.h"
#include "lockstep/parallel/tensor_parallel.h"
#include "lockstep/train/layout.h"

namespace lockstep::train {

inline constexpr const char kDataAxis[] = "data";
inline constexpr const char kTensorAxis[] = "tensor";
inline constexpr const char kPipeAxis[] = "pipe";

struct MeshRecipe {
  std::shared_ptr<parallel::Mesh> mesh;       // nullptr: it is not made yet
  std::vector<parallel::MeshAxis> axes = {};  // of it; a size of 0 takes the ranks that are left
  bool automatic = false;                     // parallel = "auto": axes and sharing are chosen, but for what is fixed
  bool is_text = false;                       // and there is no table that keys could be set in
  std::set<std::string> fixed = {};           // keys that stand beside it
  std::string pipeline_schedule;
  int pipeline_chunks = 1;
  parallel::TensorPlan tensor_plan;  // empty: the model's own
  bool sequence = false;             // see models::ModelCut
  int zero = 0;                      // see TrainerSettings
  int zero_ranks = 0;
  bool zero_within_host = false;  // as many as a host has
  std::int64_t unit_bytes = 0;
  std::string offload = Layout().offload;
  std::string offload_folder;
  std::vector<std::size_t> cuts = {};  // the first links of the stages; empty: they are balanced
  bool measured = true;                // by what links take, else by the sizes of their matrices
};

/// Of the table `key`, for so many ranks; without a mesh.
MeshRecipe read_mesh(const Config& recipe, const std::string& key, int ranks);
/// The sizes of its axes, whose product is the number of ranks. Fault::Usage if it is not.
Layout layout_of(const MeshRecipe& recipe, int ranks);
/// How many ranks of `axis` may be sure to be on one host, see parallel::neighbours_on_host(). Where the layout has
/// more ranks than there are `hosts`, others like these are thought of.
int ranks_on_host(const std::string& axis, MeshRecipe recipe, Layout layout, std::vector<int> hosts);
/// Of ranks that were `before` the most that `room` holds and that divide along the data axis alone; at least as many
/// as the other axes need, and `before` where the data axis does not take the rest.
int ranks_within(const MeshRecipe& recipe, int before, int room);
/// Makes the mesh. `world` outlives it. A collective.
void make_mesh(MeshRecipe& recipe, Layout layout, comm::Communicator& world);

}  // namespace lockstep::train
