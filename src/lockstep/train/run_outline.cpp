#include "lockstep/train/run_outline.h"

#include <iterator>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/offload_file.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

int stages_of(const std::vector<std::size_t>& cuts, int chunks) {
  const auto pieces = static_cast<int>(cuts.size());
  if (pieces % chunks == 0) return pieces / chunks;
  fail(Fault::Usage, fmt::format("parallel.cuts cuts a model into {} pieces, and parallel.chunks = {} does not divide "
                                 "them: set one of them",
                                 pieces, chunks));
}

}  // namespace

RunFacts facts_of(const RunOutline& run) {
  const auto settings = std::make_shared<const TrainerSettings>(run.settings(1));
  return {.batch = [of = run.settings](int data_ranks) { return of(data_ranks).batch; },
          .optimizer_states = static_cast<std::int64_t>(settings->optimizer->states().size()),
          .staging_bytes = settings->checkpoints.staging_bytes,
          .fuses =
              [settings](const Layout& layout, bool sparse) {
                TrainerSettings laid_out = *settings;
                laid_out.zero = layout.zero;
                laid_out.zero_ranks = layout.zero_ranks;
                laid_out.offload = layout.offload;
                return fuses(laid_out, sparse, layout.data < layout.ranks(), layout.data);
              },
          .disk_is_memory = parallel::lies_in_memory(run.mesh.offload_folder),
          .measured = run.mesh.measured};
}

TrainerSettings settings_of(const RunOutline& run, const Layout& layout) {
  TrainerSettings settings = run.settings(layout.data);
  settings.accumulate = layout.micro_batches;
  settings.pipeline_schedule = layout.schedule;
  settings.pipeline_chunks = layout.chunks;
  settings.recompute_every = layout.recompute_every;
  settings.zero = layout.zero;
  settings.zero_ranks = layout.zero_ranks;
  settings.unit_bytes = layout.unit_bytes;
  settings.offload = layout.offload;
  settings.offload_folder = run.mesh.offload_folder;
  return settings;
}

void check(const RunOutline& run, const Layout& layout, bool sparse) {
  const TrainerSettings settings = settings_of(run, layout);
  check(settings, layout, sparse);
  if (run.loads_weights && layout.data < layout.ranks())
    fail(Fault::Usage, "model.weights is of a whole model, and parallel cuts it: begin on the data axis alone");
}

Layout given_layout(const RunOutline& run, const std::vector<int>& hosts) {
  Layout layout = layout_of(run.mesh, static_cast<int>(hosts.size()));
  if (run.mesh.zero_within_host) layout.zero_ranks = ranks_on_host(kDataAxis, run.mesh, layout, hosts);
  const TrainerSettings settings = run.settings(layout.data);
  layout.micro_batches = settings.accumulate;
  layout.recompute_every = settings.recompute_every;
  return layout;
}

std::string keep_stages(MeshRecipe& mesh, const Layout& layout, const std::optional<Layout>& before) {
  if (layout.pipe == 1 || !mesh.measured || !mesh.cuts.empty() || !before) return "";
  if (!before->cuts_are_measured || before->cuts.empty()) return "";
  if (before->pipe != layout.pipe || before->tensor != layout.tensor || before->chunks != layout.chunks) return "";
  mesh.cuts.assign(before->cuts.begin(), std::prev(before->cuts.end()));
  return "stages are those that were measured when the run was begun; parallel.cuts would move them";
}

LayoutLimits limits_of(const RunOutline& run, const std::vector<int>& hosts, std::int64_t memory_bytes) {
  const TrainerSettings settings = run.settings(1);
  const auto on_host = [&run, hosts](const char* axis) {
    return [&run, hosts, axis](const Layout& layout) { return ranks_on_host(axis, run.mesh, layout, hosts); };
  };
  LayoutLimits limits{.ranks = static_cast<int>(hosts.size()),
                      .ranks_of_host = fewest_ranks_of_a_host(hosts),
                      .tensor_ranks_on_host = on_host(kTensorAxis),
                      .memory_bytes = memory_bytes};
  limits.given = {.schedule = run.mesh.pipeline_schedule,
                  .chunks = run.mesh.pipeline_chunks,
                  .micro_batches = settings.accumulate,
                  .zero_ranks = run.mesh.zero_ranks,
                  .unit_bytes = run.mesh.unit_bytes,
                  .offload = run.mesh.offload};
  const auto fixed = [&](const char* key, std::optional<int>& limit, int value) {
    if (run.mesh.fixed.contains(key) && value > 0) limit = value;
  };
  for (const auto& [name, size] : run.mesh.axes) {
    fixed(name.c_str(), name == kDataAxis ? limits.data : name == kTensorAxis ? limits.tensor : limits.pipe, size);
  }
  limits.cuts = run.mesh.cuts;
  if (run.mesh.automatic && !limits.cuts.empty() && !limits.pipe)
    limits.pipe = stages_of(limits.cuts, limits.given.chunks);
  if (run.mesh.fixed.contains("zero")) limits.zero = run.mesh.zero;
  if (run.mesh.zero_within_host) limits.zero_ranks = on_host(kDataAxis);
  if (run.fixes_recompute) limits.recompute_every = settings.recompute_every;
  limits.why_not_cut = why_not_cut(settings);
  if (run.loads_weights) limits.why_not_cut = "model.weights, a file of a whole model";
  limits.why_not_shared_out = why_not_shared_out(settings);
  limits.least_zero = least_zero(run.mesh.offload);
  limits.check = [&run](const Layout& layout, bool sparse) { check(run, layout, sparse); };
  return limits;
}

}  // namespace lockstep::train
