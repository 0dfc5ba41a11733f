#include "lockstep/train/layout_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/parallel/stages.h"
#include "lockstep/train/layer_volumes.h"
#include "lockstep/train/memory_forecast.h"
#include "lockstep/train/stage_shares.h"

namespace lockstep::train {
namespace {

using parallel::ModelCosts;

double summed_bytes(const ModelCosts& costs, std::int64_t samples, std::int64_t pieces) {
  double bytes = in_pieces(costs.loss.summed, samples, pieces);
  for (const auto& link : costs.links) bytes += in_pieces(link.summed, samples, pieces);
  return bytes;
}

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int one = 1; one <= number; ++one) {
    if (number % one == 0) all.push_back(one);
  }
  return all;
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); }

template <class Number>
bool allowed(const std::optional<Number>& fixed, Number value) {
  return !fixed || *fixed == value;
}

bool fits(const LayoutOutlook& one, const LayoutLimits& limits) {
  return limits.memory_bytes == 0 || needed_bytes(one.memory) <= limits.memory_bytes;
}

/// All layouts that limits allow, and why others are none.
class Candidates {
 public:
  Candidates(const CostsBySplit& costs, const LayoutLimits& limits, const RunFacts& facts)
      : costs_(costs), limits_(limits), facts_(facts) {
    for (const int tensor : divisors(limits.ranks)) add_split(tensor);
  }

  const std::vector<LayoutOutlook>& all() const noexcept { return all_; }
  const std::vector<std::string>& refusals() const noexcept { return refusals_; }
  /// Of the most ranks that layers can be split over, if somebody may choose.
  std::vector<std::string> volumes() const {
    if (most_split_ == 1 || whole_ == nullptr) return {};
    Layout layout = limits_.given;
    layout.tensor = most_split_;
    return volumes_by_layer(*whole_, costs_(most_split_), most_split_, facts_.samples_of_rank(layout),
                            facts_.pieces(layout));
  }

 private:
  void add_split(int tensor) {
    if (!allowed(limits_.tensor, tensor)) return;
    if (tensor > 1 && !limits_.why_not_cut.empty()) return;
    if (!limits_.fits_on_hosts(tensor)) return;  // before costs are asked for, which takes long
    const ModelCosts* costs = nullptr;
    try {
      costs = &costs_(tensor);
    } catch (const Error& error) {
      refusals_.push_back(fmt::format("tensor {}: {}", tensor, error.what()));
      return;
    }
    most_split_ = tensor;
    if (tensor == 1) whole_ = costs;
    for (const int pipe : divisors(limits_.ranks / tensor)) add_stages(*costs, tensor, pipe);
  }

  void add_stages(const ModelCosts& costs, int tensor, int pipe) {
    Layout layout = limits_.given;
    layout.tensor = tensor;
    layout.pipe = pipe;
    layout.data = limits_.ranks / tensor / pipe;
    if (!allowed(limits_.pipe, pipe) || !allowed(limits_.data, layout.data)) return;
    if (pipe > 1 && !limits_.why_not_cut.empty()) return;
    if (!limits_.keeps_to_hosts(layout)) return;
    if (pipe == 1) layout.cuts = {};
    if (limits_.zero_ranks) layout.zero_ranks = limits_.zero_ranks(layout);
    if (static_cast<std::size_t>(pipe * layout.chunks) > costs.links.size() && pipe > 1) return;
    if (pipe > 1 && !limits_.cuts.empty() && !cut_as_given(layout, costs)) return;
    const bool shares_out = layout.data > 1 || limits_.zero || limits_.least_zero > 0;
    for (int zero = limits_.zero.value_or(limits_.least_zero); zero <= (shares_out ? 3 : 0); ++zero) {
      if (!allowed(limits_.zero, zero)) continue;
      if (zero > limits_.least_zero && !limits_.why_not_shared_out.empty()) continue;
      if (zero > limits_.least_zero && costs.sparse && !limits_.zero) continue;  // no run shares these out
      layout.zero = zero;
      for (const std::int64_t every : {std::int64_t{0}, std::int64_t{1}}) {
        layout.recompute_every = limits_.recompute_every.value_or(every);
        add(costs, layout);
        if (limits_.recompute_every) break;
      }
    }
  }

  bool cut_as_given(Layout& layout, const ModelCosts& costs) {
    try {
      layout.cuts = parallel::given_cuts(limits_.cuts, layout.pipe * layout.chunks, costs.chain);
      return true;
    } catch (const Error& error) {
      refuse(layout, error);
      return false;
    }
  }

  void add(const ModelCosts& costs, const Layout& layout) {
    try {
      if (limits_.check) limits_.check(layout, costs.sparse);
      all_.push_back(outlook(costs, layout, facts_));
    } catch (const Error& error) {  // such as a schedule that there is not for so many stages
      refuse(layout, error);
    }
  }

  void refuse(const Layout& layout, const Error& error) {
    if (whys_.insert(error.what()).second) refusals_.push_back(fmt::format("{}: {}", layout.text(), error.what()));
  }

  const CostsBySplit& costs_;
  const LayoutLimits& limits_;
  const RunFacts& facts_;
  std::vector<LayoutOutlook> all_;
  int most_split_ = 1;
  const ModelCosts* whole_ = nullptr;  // of layers that are not split; none: they may not be whole, or had no room here
  std::vector<std::string> refusals_;
  std::set<std::string> whys_;  // of refusals: one is said for all layouts that it is of
};

// Times are measured: a percent says nothing.
constexpr double kSame = 1.01;

/// Of those that lose the least time, but for a percent, the one that moves least. Of none nullptr.
const LayoutOutlook* best_of(const std::vector<const LayoutOutlook*>& all) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto* one : all) least = std::min(least, one->slowdown);
  const auto place = [](const LayoutOutlook* one) {
    return std::tuple(one->moved_bytes(), one->layout.zero, one->slowdown, one->layout.text());
  };
  const LayoutOutlook* best = nullptr;
  for (const auto* one : all) {
    if (one->slowdown > least * kSame) continue;
    if (best == nullptr || place(one) < place(best)) best = one;
  }
  return best;
}

std::string moved_text(const LayoutOutlook& one) {
  std::vector<std::string> parts;
  if (one.layout.data > 1) parts.push_back(bytes_text(one.data_bytes) + " of gradients and weights");
  if (one.layout.tensor > 1) parts.push_back(bytes_text(one.tensor_bytes) + " of activations within layers");
  if (one.layout.pipe > 1) parts.push_back(bytes_text(one.pipe_bytes) + " of activations between stages");
  if (parts.empty()) return "nothing moves";
  return fmt::format("a rank moves {} a step", join(parts, " and "));
}

std::string outlook_text(const LayoutOutlook& one) {
  std::string text =
      fmt::format("{}: {}, {} of memory", one.layout.text(), moved_text(one), format_bytes(one.memory.total()));
  if (one.slowdown > 1.005) text += fmt::format(", {:.0f} % of the time lost", 100 * (1 - 1 / one.slowdown));
  return text;
}

/// For somebody who finds that there is no layout.
std::string fixed_text(const LayoutLimits& limits) {
  std::vector<std::string> fixed;
  const auto add = [&](const char* name, const std::optional<int>& value) {
    if (value) fixed.push_back(fmt::format("{} {}", name, *value));
  };
  add("data", limits.data);
  add("tensor", limits.tensor);
  add("pipe", limits.pipe);
  add("zero", limits.zero);
  std::string text =
      fixed.empty() ? "" : fmt::format("{} {} fixed, ", join(fixed, ", "), fixed.size() > 1 ? "are" : "is");
  text += fmt::format("data x tensor x pipe is {}, and the tensor axis stays on a host, which has {} ranks",
                      limits.ranks, limits.ranks_of_host);
  if (!limits.why_not_cut.empty())
    text += fmt::format("; layers are not cut, for that does not go with {}", limits.why_not_cut);
  return text;
}

/// With nothing left to choose; none if somebody has fixed something else.
std::optional<LayoutLimits> fixed_as(const Layout& before, LayoutLimits limits) {
  bool same = before.ranks() == limits.ranks;
  const auto fix = [&same](auto& limit, auto value) {
    same = same && allowed(limit, value);
    limit = value;
  };
  fix(limits.data, before.data);
  fix(limits.tensor, before.tensor);
  fix(limits.pipe, before.pipe);
  fix(limits.zero, before.zero);
  fix(limits.recompute_every, before.recompute_every);
  return same ? std::optional(std::move(limits)) : std::nullopt;
}

/// What was chosen when the run was begun, if it may be chosen now.
std::optional<LayoutChoice> kept(const Layout& before, const CostsBySplit& costs, const LayoutLimits& limits,
                                 const RunFacts& facts) {
  const auto fixed = fixed_as(before, limits);
  if (!fixed) return std::nullopt;
  const Candidates candidates(costs, *fixed, facts);
  if (candidates.all().empty() || !fits(candidates.all().front(), limits)) return std::nullopt;
  const LayoutOutlook& same = candidates.all().front();
  return LayoutChoice{
      .chosen = same, .fits = true, .reasons = {"chosen when the run was begun: " + same.layout.text()}};
}

}  // namespace

bool LayoutLimits::fits_on_hosts(int split) const { return split <= ranks_of_host; }

bool LayoutLimits::keeps_to_hosts(const Layout& layout) const {
  return fits_on_hosts(layout.tensor) && (!tensor_ranks_on_host || tensor_ranks_on_host(layout) == layout.tensor);
}

LayoutOutlook outlook(const ModelCosts& costs, const Layout& layout, const RunFacts& facts) {
  LayoutOutlook result;
  result.layout = layout;
  result.memory = worst(forecast(costs, layout, facts));
  const std::int64_t samples = facts.samples_at_once(layout), of_rank = facts.samples_of_rank(layout);
  const std::int64_t pieces = facts.pieces(layout);
  const double gradients = static_cast<double>(trained_bytes(costs)) / layout.pipe;
  if (layout.data > 1) {
    // A sum is a reduction to shards and a collection of them. With zero 2 and 3 gradients are reduced after every
    // micro-batch, with 3 weights are collected before its forward and its backward.
    const double half = moved_by_sum(gradients, layout.data) / 2;
    const std::int64_t times = layout.zero == 3 ? 3 * pieces : layout.zero == 2 ? pieces + 1 : 2;
    result.data_bytes = half * static_cast<double>(times);
  }
  const double again = layout.recompute_every > 0 ? 1 + 0.5 / static_cast<double>(layout.recompute_every) : 1;
  if (layout.tensor > 1) {
    result.tensor_bytes = moved_by_sum(summed_bytes(costs, of_rank, pieces), layout.tensor) / layout.pipe * again;
  }
  const auto cuts = cuts_of(costs, layout, facts);
  const auto shares = shares_of_stages(seconds_of(costs, samples), cuts, layout.pipe);
  if (layout.pipe > 1) {
    for (std::size_t cut = 1; cut + 1 < cuts.size(); ++cut) {
      // There and back; a rank is on both sides of some of them.
      result.pipe_bytes += 2 * in_pieces(costs.links[cuts[cut] - 1].output, of_rank, pieces) * 2 / layout.pipe;
    }
    const auto schedule = parallel::make_pipeline_schedule(layout.schedule, layout.pipe,
                                                           static_cast<int>(layout.micro_batches), layout.chunks);
    result.slowdown /= 1 - parallel::bubble_share(parallel::timeline(schedule));
    result.slowdown *= *std::max_element(shares.begin(), shares.end()) * layout.pipe;
  }
  // Ranks with fewer samples wait for those with more, and stages of a pipeline for the largest micro-batch, too.
  const double slots = static_cast<double>(layout.pipe > 1 ? samples * pieces : of_rank) * layout.data;
  result.slowdown *= slots / static_cast<double>(facts.batch(layout.data));
  // A second forward, which is about a third of a forward and a backward.
  if (layout.recompute_every > 0) result.slowdown *= 1 + 1.0 / (3.0 * static_cast<double>(layout.recompute_every));
  return result;
}

bool comes_before(const LayoutOutlook& one, const LayoutOutlook& other) {
  // Times that are a percent apart are not an order of more than two of them; steps of a percent are.
  const auto rank = [](const LayoutOutlook& each) {
    return std::tuple(std::llround(std::log(each.slowdown) / std::log(kSame)), each.moved_bytes(), each.layout.zero,
                      each.layout.text());
  };
  return rank(one) < rank(other);
}

LayoutChoice choose_layout(const CostsBySplit& costs, const LayoutLimits& limits, const RunFacts& facts,
                           const std::optional<Layout>& before) {
  if (before) {
    if (auto choice = kept(*before, costs, limits, facts)) return *std::move(choice);
  }
  const Candidates candidates(costs, limits, facts);
  if (candidates.all().empty()) {
    fail(Fault::Usage,
         fmt::format("parallel = \"auto\" finds no layout of {} ranks: {}", limits.ranks,
                     candidates.refusals().empty() ? fixed_text(limits) : list_some(candidates.refusals(), 3)));
  }
  const LayoutOutlook* smallest = &candidates.all().front();
  std::vector<const LayoutOutlook*> fitting;
  double least_slowdown = std::numeric_limits<double>::infinity();
  for (const auto& one : candidates.all()) {
    if (one.memory.total() < smallest->memory.total()) smallest = &one;
    if (!fits(one, limits)) continue;
    fitting.push_back(&one);
    least_slowdown = std::min(least_slowdown, one.slowdown);
  }
  const LayoutOutlook* chosen = best_of(fitting);
  LayoutChoice choice{.chosen = chosen != nullptr ? *chosen : *smallest, .fits = chosen != nullptr, .reasons = {}};
  const Layout& layout = choice.chosen.layout;
  choice.reasons.push_back("chosen is " + outlook_text(choice.chosen));
  constexpr std::size_t kMostLayers = 8;
  const auto volumes = candidates.volumes();
  for (std::size_t number = 0; number < std::min(kMostLayers, volumes.size()); ++number)
    choice.reasons.push_back(volumes[number]);
  if (volumes.size() > kMostLayers)
    choice.reasons.push_back(fmt::format("and {} layers more", volumes.size() - kMostLayers));
  if (!choice.fits) {
    choice.reasons.push_back(fmt::format("nothing fits into the {} of a rank: it is what takes the least",
                                         format_bytes(limits.memory_bytes)));
  }
  // The best of each other way to use the axes, and why it is not taken.
  std::map<std::pair<int, int>, std::vector<const LayoutOutlook*>> rivals;  // by tensor and pipe
  std::vector<const LayoutOutlook*> too_large;
  for (const auto& one : candidates.all()) {
    const Layout& other = one.layout;
    const bool same_axes = other.tensor == layout.tensor && other.pipe == layout.pipe;
    if (!fits(one, limits)) {
      if (choice.fits && best_of({&choice.chosen, &one}) == &one) too_large.push_back(&one);
      continue;
    }
    if (!same_axes) rivals[{other.tensor, other.pipe}].push_back(&one);
  }
  constexpr std::size_t kShown = 3;
  std::sort(too_large.begin(), too_large.end(),
            [](const auto* one, const auto* other) { return comes_before(*one, *other); });
  for (std::size_t number = 0; number < std::min(kShown, too_large.size()); ++number) {
    choice.reasons.push_back(
        fmt::format("does not fit into {}: {}", format_bytes(limits.memory_bytes), outlook_text(*too_large[number])));
  }
  std::vector<const LayoutOutlook*> others;
  for (const auto& [axes, all] : rivals) others.push_back(best_of(all));
  // That of data alone is what most would have expected.
  const auto whole = [](const LayoutOutlook* one) { return one->layout.tensor * one->layout.pipe == 1; };
  std::sort(others.begin(), others.end(), [&](const auto* one, const auto* other) {
    return whole(one) != whole(other) ? whole(one) : comes_before(*one, *other);
  });
  for (std::size_t number = 0; number < std::min(kShown, others.size()); ++number) {
    const bool slower = others[number]->slowdown > least_slowdown * kSame;
    choice.reasons.push_back(
        fmt::format("{}: {}", slower ? "loses more time" : "moves more", outlook_text(*others[number])));
  }
  for (const auto& refusal : candidates.refusals()) choice.reasons.push_back("cannot be: " + refusal);
  if (!limits.why_not_cut.empty())
    choice.reasons.push_back("layers are not cut, for that does not go with " + limits.why_not_cut);
  return choice;
}

}  // namespace lockstep::train
