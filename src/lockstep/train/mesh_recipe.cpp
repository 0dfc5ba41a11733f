#include "lockstep/train/mesh_recipe.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {
namespace {

/// 0: what is left of the ranks.
int axis_size(const Config& recipe, const std::string& key, int fallback) {
  if (recipe.holds_text(key)) {
    const std::string text = recipe.get(key, "");
    if (text != "rest") fail(Fault::Usage, fmt::format("{} = \"{}\": it is a number of ranks, or \"rest\"", key, text));
    return 0;
  }
  if (!recipe.has(key)) return fallback;
  const std::int64_t size = recipe.get(key, 1);
  constexpr std::int64_t kMost = 1 << 20;  // the product of all axes can be said in a message
  if (size < 1 || size > kMost)
    fail(Fault::Usage, fmt::format("{} = {}: it is from 1 to {}, or \"rest\"", key, size, kMost));
  return static_cast<int>(size);
}

int number_within(const Config& recipe, const std::string& key, int fallback, int least, int most) {
  const std::int64_t number = recipe.get(key, fallback);
  if (number < least || number > most)
    fail(Fault::Usage, fmt::format("{} = {}: it is from {} to {}", key, number, least, most));
  return static_cast<int>(number);
}

constexpr int kUnitBytes = 1 << 20;
constexpr const char kHost[] = "host";

/// The axes in their order. Where another takes the rest of the ranks, data has one unless more is said or chosen.
std::vector<parallel::MeshAxis> axes_of(const Config& recipe, const std::string& key,
                                        const std::vector<std::string>& order, bool automatic) {
  std::vector<parallel::MeshAxis> axes;
  bool others_take_rest = false;
  for (const auto& name : order) {
    if (name == kDataAxis) continue;
    axes.push_back({name, axis_size(recipe, key + "." + name, 1)});
    others_take_rest |= axes.back().size == 0;
  }
  const auto place = std::find(order.begin(), order.end(), kDataAxis) - order.begin();
  axes.insert(axes.begin() + place,
              {kDataAxis, axis_size(recipe, key + "." + kDataAxis, others_take_rest && !automatic ? 1 : 0)});
  return axes;
}

int& ranks_along(Layout& layout, const std::string& axis) {
  if (axis == kDataAxis) return layout.data;
  if (axis == kTensorAxis) return layout.tensor;
  if (axis == kPipeAxis) return layout.pipe;
  fail(Fault::Internal, fmt::format("a layout has no axis '{}'", axis));
}

/// What would be passed over without a word.
void check_of_use(const MeshRecipe& recipe, const std::string& key, bool chunks_are_said) {
  if (recipe.automatic) return;  // what is chosen may have no use for it
  for (const auto& [name, size] : recipe.axes) {
    if (name != kPipeAxis || size != 1) continue;
    const std::string unused = !recipe.cuts.empty()                            ? "cuts"
                               : chunks_are_said && recipe.pipeline_chunks > 1 ? "chunks"
                                                                               : "";
    if (unused.empty()) continue;
    fail(Fault::Usage,
         fmt::format("{0}.{1} is of stages, and {0}.{2} = 1 makes none: set {0}.{2} to 2 or more, or leave "
                     "{0}.{1} out",
                     key, unused, kPipeAxis));
  }
  if ((recipe.zero_ranks > 0 || recipe.zero_within_host) && recipe.zero == 0) {
    fail(Fault::Usage, fmt::format("{0}.zero_ranks = {1} says how many ranks share one copy out, and {0}.zero = 0 "
                                   "shares nothing out: set {0}.zero to 1, 2 or 3, or leave {0}.zero_ranks out",
                                   key, recipe.zero_within_host ? "\"host\"" : std::to_string(recipe.zero_ranks)));
  }
  for (const auto& [name, size] : recipe.axes) {
    if (name != kTensorAxis || size != 1 || !recipe.sequence) continue;
    fail(Fault::Usage, fmt::format("{0}.sequence = true cuts activations over the ranks that split a layer, and "
                                   "{0}.{1} = 1 splits none: set {0}.{1} to 2 or more, or leave {0}.sequence out",
                                   key, kTensorAxis));
  }
}

}  // namespace

MeshRecipe read_mesh(const Config& recipe, const std::string& key, int ranks) {
  MeshRecipe result;
  // The last runs fastest: tensor ranks talk most, and are neighbours on a host.
  const std::vector<std::string> usual{kPipeAxis, kDataAxis, kTensorAxis};
  if (recipe.holds_text(key)) {
    const std::string text = recipe.get(key, "");
    if (text != "auto") fail(Fault::Usage, fmt::format("{} = \"{}\": it is a table, or \"auto\"", key, text));
    result.automatic = result.is_text = true;
    for (const auto& name : usual) result.axes.push_back({name, name == kDataAxis ? 0 : 1});
    result.pipeline_schedule = "1f1b";
    result.unit_bytes = kUnitBytes;
    return result;
  }
  if (recipe.has(key + ".layout")) {
    const std::string text = recipe.get(key + ".layout", "");
    if (text != "auto") {
      fail(Fault::Usage, fmt::format("{0}.layout = \"{1}\": it is \"auto\", or left out where keys such as {0}.{2} "
                                     "say how ranks are laid out",
                                     key, text, kTensorAxis));
    }
    result.automatic = true;
  }
  for (const std::string name : {kPipeAxis, kTensorAxis, kDataAxis, "zero"}) {
    if (recipe.has(key + "." + name)) result.fixed.insert(name);
  }
  const auto order = recipe.get(key + ".order", usual);
  auto sorted = order, known = usual;
  std::sort(sorted.begin(), sorted.end());
  std::sort(known.begin(), known.end());
  if (sorted != known) {
    fail(Fault::Usage, fmt::format("{}.order holds each of {} once, that of neighbours last; not {}", key,
                                   list_some(usual, usual.size()), list_some(order, order.size())));
  }
  result.axes = axes_of(recipe, key, order, result.automatic);
  result.pipeline_schedule = recipe.get(key + ".schedule", "1f1b");
  constexpr int kMostChunks = 1024;  // so that all stages of any number of ranks can be counted
  result.pipeline_chunks =
      number_within(recipe, key + ".chunks", parallel::usual_chunks(result.pipeline_schedule), 1, kMostChunks);
  result.tensor_plan = recipe.texts(key + ".tensor_plan");
  result.sequence = recipe.get(key + ".sequence", false);
  result.zero = number_within(recipe, key + ".zero", 0, 0, 3);
  if (recipe.holds_text(key + ".zero_ranks")) {
    const std::string text = recipe.get(key + ".zero_ranks", "");
    if (text != kHost)
      fail(Fault::Usage, fmt::format("{}.zero_ranks = \"{}\": it is a number of ranks, or \"{}\"", key, text, kHost));
    result.zero_within_host = true;
  } else {
    result.zero_ranks = number_within(recipe, key + ".zero_ranks", 0, 0, ranks);
  }
  constexpr int kMostUnitBytes = 1 << 30;
  result.unit_bytes = number_within(recipe, key + ".unit_bytes", kUnitBytes, 0, kMostUnitBytes);
  result.offload = recipe.get(key + ".offload", kOffloadNothing);
  result.offload_folder = recipe.get(key + ".offload_folder", "");
  for (const std::int64_t link : recipe.get(key + ".cuts", std::vector<std::int64_t>{})) {
    if (link < 0) fail(Fault::Usage, fmt::format("{}.cuts holds {}: blocks count from 0 on", key, link));
    result.cuts.push_back(static_cast<std::size_t>(link));
  }
  const std::string costs = recipe.get(key + ".costs", "measured");
  if (costs != "measured" && costs != "parameters")
    fail(Fault::Usage, fmt::format("{}.costs = \"{}\": it is \"measured\" or \"parameters\"", key, costs));
  result.measured = costs == "measured";
  check_of_use(result, key, recipe.has(key + ".chunks"));
  return result;
}

Layout layout_of(const MeshRecipe& recipe, int ranks) {
  Layout layout{.schedule = recipe.pipeline_schedule,
                .chunks = recipe.pipeline_chunks,
                .zero = recipe.zero,
                .zero_ranks = recipe.zero_ranks,
                .unit_bytes = recipe.unit_bytes,
                .offload = recipe.offload};
  for (const auto& [name, size] : parallel::fitted_axes(recipe.axes, ranks)) ranks_along(layout, name) = size;
  return layout;
}

int ranks_on_host(const std::string& axis, MeshRecipe recipe, Layout layout, std::vector<int> hosts) {
  for (auto& [name, size] : recipe.axes) size = ranks_along(layout, name);
  const std::size_t known = hosts.size();
  const int count = *std::max_element(hosts.begin(), hosts.end()) + 1;
  while (hosts.size() < static_cast<std::size_t>(layout.ranks())) hosts.push_back(hosts[hosts.size() - known] + count);
  return parallel::neighbours_on_host(recipe.axes, axis, std::move(hosts));
}

int ranks_within(const MeshRecipe& recipe, int before, int room) {
  if (before <= room) return before;
  std::int64_t together = recipe.zero > 0 && recipe.zero_ranks > 0 ? recipe.zero_ranks : 1;
  for (const auto& [name, size] : recipe.axes) {
    const bool takes_rest = size == 0;
    if (takes_rest != (name == kDataAxis)) return before;
    if (!takes_rest) together *= size;
  }
  return static_cast<int>(std::min<std::int64_t>(before, std::max(room / together, std::int64_t{1}) * together));
}

void make_mesh(MeshRecipe& recipe, Layout layout, comm::Communicator& world) {
  for (auto& [name, size] : recipe.axes) size = ranks_along(layout, name);
  recipe.zero = layout.zero;
  recipe.mesh = std::make_shared<parallel::Mesh>(world, parallel::fitted_axes(recipe.axes, world.size()));
  if (const int hosts = recipe.mesh->hosts_along(kTensorAxis); hosts > 1 && world.rank() == 0) {
    log().warn(
        "{} = {} of parallel lays ranks of one layer on {} hosts, and sums of each layer go over the network: set "
        "it to a divisor of the ranks of a host",
        kTensorAxis, recipe.mesh->size(kTensorAxis), hosts);
  }
}

}  // namespace lockstep::train
