#include "lockstep/train/dry_run.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/order.h"
#include "lockstep/parallel/offload_file.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/parallel/stages.h"
#include "lockstep/train/memory_forecast.h"
#include "lockstep/train/memory_meter.h"
#include "lockstep/train/run_outline.h"
#include "lockstep/train/stage_shares.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

/// What would be set in a recipe that says `before`; `fixes_data`: also how many ranks share the samples. One with
/// `parallel` as text has no table to set keys in: what stands there instead comes last, as a line of the recipe.
std::string settings_text(const Layout& before, const Layout& after, bool fixes_data, bool is_text) {
  std::vector<std::string> words, keys;
  const auto set = [&](const std::string& key, const auto& value) {
    is_text ? keys.push_back(fmt::format("{} = {}", key, value))
            : words.push_back(fmt::format("parallel.{}={}", key, value));
  };
  // On the same hosts each rank would have less.
  if (after.ranks() != before.ranks())
    words.push_back(fmt::format("-n {} on {} times the hosts", after.ranks(), after.ranks() / before.ranks()));
  if (fixes_data && after.data != before.data) set(kDataAxis, after.data);
  if (after.tensor != before.tensor) set(kTensorAxis, after.tensor);
  if (after.pipe != before.pipe) set(kPipeAxis, after.pipe);
  if (after.zero != before.zero) set("zero", after.zero);
  if (after.offload != before.offload) set("offload", is_text ? '"' + after.offload + '"' : after.offload);
  if (after.micro_batches != before.micro_batches) words.push_back(fmt::format("accumulate={}", after.micro_batches));
  if (after.recompute_every != before.recompute_every) words.emplace_back("recompute=full");
  if (keys.empty()) return join(words, " ");
  const std::string line =
      fmt::format("parallel = {{ layout = \"auto\", {} }} instead of parallel = \"auto\"", join(keys, ", "));
  return words.empty() ? line : join(words, " ") + " and " + line;
}

/// Tries what a user would try.
class Search {
 public:
  Search(const RunOutline& run, const RunFacts& facts, const LayoutLimits& limits, const LayoutOutlook& begin,
         std::int64_t room)
      : run_(run), facts_(facts), limits_(limits), begin_(begin.layout), slowdown_(begin.slowdown), room_(room) {
    for (const int more : {1, 2, 4, 8}) {
      try_axes(begin_.ranks() * more);
      if (std::any_of(fitting_.begin(), fitting_.end(), [this](const Remedy& one) { return bearable(one); }))
        break;  // with more ranks it would fit, too
    }
    try_disk();
  }

  /// Of those that fit with the fewest ranks the best; those that nobody would wait for only if there are no others.
  std::vector<Remedy> remedies() const {
    auto all = fitting_;
    const auto slow =
        std::stable_partition(all.begin(), all.end(), [this](const Remedy& one) { return bearable(one); });
    if (slow != all.begin()) all.erase(slow, all.end());
    std::stable_sort(all.begin(), all.end(),
                     [](const Remedy& one, const Remedy& other) { return comes_before(one.outlook, other.outlook); });
    // What changes one thing alone is easier to take, and what is on disk is slow.
    std::stable_sort(all.begin(), all.end(),
                     [](const Remedy& one, const Remedy& other) { return changes(one) < changes(other); });
    constexpr std::size_t kShown = 6;
    if (all.size() > kShown) all.resize(kShown);
    return all;
  }
  /// What takes the least of all that was tried; "": nothing could be.
  std::string smallest() const {
    if (!smallest_) return "";
    return fmt::format("{} ({})", format_bytes(smallest_->memory.total()), settings_text(smallest_->layout));
  }

 private:
  std::string settings_text(const Layout& layout) const {
    const auto& axes = run_.mesh.axes;
    const bool fixes_data = std::none_of(axes.begin(), axes.end(), [](const parallel::MeshAxis& axis) {
      return axis.name == kDataAxis && axis.size == 0;
    });
    return train::settings_text(begin_, layout, fixes_data, run_.mesh.is_text);
  }

  bool bearable(const Remedy& one) const {
    constexpr double kTimes = 5;
    return one.outlook.slowdown <= kTimes * slowdown_;
  }

  static std::int64_t changes(const Remedy& one) {
    const bool on_disk = one.outlook.layout.offload != kOffloadNothing;
    // Of the line that replaces a text three are no change.
    const bool replaces = one.settings.ends_with("parallel = \"auto\"");
    return std::count(one.settings.begin(), one.settings.end(), '=') + (on_disk ? 1 : 0) - (replaces ? 3 : 0);
  }

  void try_axes(int ranks) {
    const int most = std::min(ranks, std::max(limits_.ranks_of_host, begin_.tensor));
    for (int tensor = begin_.tensor; tensor <= most; tensor *= 2) {
      for (int pipe = begin_.pipe; tensor * pipe <= ranks; pipe *= 2) {
        Layout layout = begin_;
        layout.tensor = tensor;
        layout.pipe = pipe;
        if (ranks % (layout.tensor * layout.pipe) != 0) continue;
        layout.data = ranks / layout.tensor / layout.pipe;
        if (tensor > begin_.tensor && !limits_.keeps_to_hosts(layout)) continue;
        if (layout.pipe != begin_.pipe) layout.cuts = {};
        if (layout.pipe > 1 && layout.pipe != begin_.pipe && !limits_.cuts.empty()) continue;  // they are of another
        if (limits_.zero_ranks) layout.zero_ranks = limits_.zero_ranks(layout);
        const bool cut = layout.tensor > begin_.tensor || layout.pipe > begin_.pipe;
        if (cut && !limits_.why_not_cut.empty()) continue;
        try_sharing(layout);
      }
    }
  }

  void try_sharing(Layout layout) {
    const int begin = layout.zero;
    for (int zero = begin; zero <= 3; ++zero) {
      if (zero > begin && (layout.data == 1 || !limits_.why_not_shared_out.empty())) break;
      layout.zero = zero;
      for (const bool again : {false, true}) {
        if (again && begin_.recompute_every == 1) break;
        layout.recompute_every = again ? 1 : begin_.recompute_every;
        try_pieces(layout);
      }
    }
  }

  void try_disk() {
    Layout layout = begin_;
    for (const auto& [offload, zero] : {std::pair<std::string, int>(kOffloadOptimizer, 1), {kOffloadAll, 3}}) {
      layout.offload = offload;
      layout.zero = std::max(zero, begin_.zero);
      if (attempt(layout)) return;
    }
  }

  /// Smaller micro-batches, as long as each has samples.
  void try_pieces(Layout layout) {
    constexpr std::int64_t kMost = 4096;  // a schedule of more takes long to look at
    const std::int64_t samples = facts_.batch(layout.data) / layout.data;
    const std::int64_t most = std::max(begin_.micro_batches, std::min(samples, kMost));
    for (std::int64_t pieces = begin_.micro_batches; pieces <= most; pieces *= 2) {
      layout.micro_batches = pieces;
      if (attempt(layout)) break;
    }
  }

  bool attempt(const Layout& layout) {
    try {
      const auto& costs = run_.probe->costs(layout.tensor);
      limits_.check(layout, costs.sparse);
      const auto found = outlook(costs, layout, facts_);
      if (!smallest_ || found.memory.total() < smallest_->memory.total()) smallest_ = found;
      if (needed_bytes(found.memory) > room_) return false;
      fitting_.push_back({settings_text(layout), found});
      return true;
    } catch (const Error&) {
      return false;  // there is no such layout
    }
  }

  const RunOutline& run_;
  const RunFacts& facts_;
  const LayoutLimits& limits_;
  const Layout& begin_;
  double slowdown_;  // of it
  std::int64_t room_;
  std::vector<Remedy> fitting_;
  std::optional<LayoutOutlook> smallest_;
};

double idle_share(const Layout& layout) {
  if (layout.pipe == 1) return 0;
  return parallel::bubble_share(parallel::timeline(parallel::make_pipeline_schedule(
      layout.schedule, layout.pipe, static_cast<int>(layout.micro_batches), layout.chunks)));
}

std::string kinds_text(const parallel::MemoryUse& use) { return MemoryReport{.use = use}.text(); }

/// What a run finds wrong when it begins.
void check_begin(const RunOutline& run, const Layout& layout, bool sparse) {
  check(run, layout, sparse);
  const TrainerSettings settings = run.settings(layout.data);
  check_schedule(*settings.schedule({std::numeric_limits<std::int64_t>::max(), 1}), run.data);
  if (run.data.validation && settings.checkpoints.keep_best > 0)
    check_figure(settings.checkpoints.best_by, figure_names(settings.metrics), "checkpoints.best_by");
  (void)data::make_order(run.data.order,
                         {.samples = run.data.train->size(), .seed = settings.seed, .groups = run.data.groups});
}

}  // namespace

DryRun dry_run(const Config& recipe, int ranks, const MemoryLimit& limit, const std::optional<Layout>& before) {
  DryRun result;
  result.limit = limit;
  RunOutline run = outline(recipe, ranks);
  const std::int64_t room = limit.room();
  const RunFacts facts = facts_of(run);
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / std::max(1, limit.ranks_of_host));
  const auto limits = limits_of(run, hosts, room);
  Layout layout;
  if (run.mesh.automatic) {
    auto choice =
        choose_layout([&](int tensor) -> const auto& { return run.probe->costs(tensor); }, limits, facts, before);
    layout = choice.chosen.layout;
    result.reasons = std::move(choice.reasons);
  } else {
    layout = given_layout(run, hosts);
  }
  if (auto said = keep_stages(run.mesh, layout, before); !said.empty()) result.reasons.push_back(std::move(said));
  check(run, layout, /*sparse=*/false);
  const auto& costs = run.probe->costs(layout.tensor);
  check_begin(run, layout, costs.sparse);
  recipe.finish();
  if (!run.mesh.cuts.empty() && layout.pipe > 1)
    layout.cuts = parallel::given_cuts(run.mesh.cuts, layout.pipe * layout.chunks, costs.chain);
  layout.cuts = cuts_of(costs, layout, facts);
  result.samples_at_once = facts.samples_at_once(layout);
  result.outlook = outlook(costs, layout, facts);
  if (layout.offload != kOffloadNothing)
    parallel::check_offload_folder(run.mesh.offload_folder, result.outlook.memory.disk * limit.ranks_of_host);
  result.fits = needed_bytes(result.outlook.memory) <= room;
  if (layout.pipe > 1)
    result.stages = stage_lines(costs.chain, layout.cuts, layout.pipe, seconds_of(costs, result.samples_at_once));
  if (result.fits) return result;
  const Search search(run, facts, limits, result.outlook, room);
  result.remedies = search.remedies();
  if (result.remedies.empty()) result.smallest = search.smallest();
  return result;
}

std::string DryRun::text() const {
  const Layout& layout = outlook.layout;
  std::string all = fmt::format("layout: {} on {} ranks\n", layout.text(), layout.ranks());
  for (const auto& reason : reasons) all += fmt::format("  {}\n", reason);
  for (const auto& stage : stages) all += fmt::format("  {}\n", stage);
  all += fmt::format("micro-batches: {} of {} samples on each rank of the data axis", layout.micro_batches,
                     samples_at_once);
  if (layout.pipe > 1)
    all += fmt::format("; {} leaves stages idle {:.1f} % of the time", layout.schedule, 100 * idle_share(layout));
  all += fmt::format("\nmemory of the rank that takes most: {}\n", kinds_text(outlook.memory));
  all += fmt::format("beside it the program and its libraries take {}, and holes between tensors up to {}\n",
                     format_bytes(limit.program_bytes),
                     format_bytes(needed_bytes(outlook.memory) - outlook.memory.total()));
  all += fmt::format("{} {}, which is {} for each of {} ranks\n", limit.of, format_bytes(limit.bytes),
                     format_bytes(limit.of_rank()), limit.ranks_of_host);
  const std::int64_t needed = needed_bytes(outlook.memory) + limit.program_bytes;
  if (fits) return all + fmt::format("it fits: {} are left\n", format_bytes(limit.of_rank() - needed));
  all += fmt::format("it does not fit: {} are missing\n", format_bytes(needed - limit.of_rank()));
  for (const auto& [settings, would_be] : remedies) {
    all += fmt::format("  would fit: {}, with {}", settings, format_bytes(would_be.memory.total()));
    if (would_be.slowdown > outlook.slowdown * 1.01)
      all += fmt::format(", {:.0f} % slower", 100 * (would_be.slowdown / outlook.slowdown - 1));
    all += "\n";
  }
  if (!smallest.empty()) all += fmt::format("  nothing that was tried fits; the least is {}\n", smallest);
  return all;
}

nlohmann::json DryRun::json() const {
  const Layout& layout = outlook.layout;
  nlohmann::json json = {{"fits", fits},
                         {"ranks", layout.ranks()},
                         {"data", layout.data},
                         {"tensor", layout.tensor},
                         {"pipe", layout.pipe},
                         {"zero", layout.zero},
                         {"recompute", layout.recompute_every},
                         {"micro_batches", layout.micro_batches},
                         {"samples_at_once", samples_at_once},
                         {"idle_share", idle_share(layout)},
                         {"cuts", layout.cuts},
                         {"stages", stages},
                         {"memory", json_of(outlook.memory)},
                         {"needed_bytes", needed_bytes(outlook.memory) + limit.program_bytes},
                         {"program_bytes", limit.program_bytes},
                         {"limit_bytes", limit.of_rank()},
                         {"moved_bytes", outlook.moved_bytes()},
                         {"reasons", reasons},
                         {"remedies", nlohmann::json::array()}};
  for (const auto& [settings, would_be] : remedies) {
    json["remedies"].push_back(
        {{"settings", settings}, {"bytes", would_be.memory.total()}, {"slowdown", would_be.slowdown}});
  }
  return json;
}

}  // namespace lockstep::train
