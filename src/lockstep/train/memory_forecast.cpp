#include "lockstep/train/memory_forecast.h"

#include <algorithm>
#include <functional>
#include <set>

#include "lockstep/parallel/offload.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "lockstep/parallel/stages.h"
#include "lockstep/parallel/units.h"
#include "lockstep/train/stage_shares.h"

namespace lockstep::train {
namespace {

using parallel::MemoryUse;
using parallel::ModelCosts;
using parallel::Parameters;

std::int64_t bytes_of(const Parameters& tensors) {
  std::int64_t bytes = 0;
  for (const auto& one : tensors) bytes += static_cast<std::int64_t>(one.tensor.nbytes());
  return bytes;
}

/// Links [first, last) that samples pass through together.
struct Pass {
  std::size_t first, last;
};

class StageForecast {
 public:
  StageForecast(const ModelCosts& costs, const Layout& layout, const RunFacts& facts,
                const std::vector<std::size_t>& cuts, int stage)
      : costs_(costs), layout_(layout), facts_(facts), cuts_(cuts), stage_(stage) {
    for (auto piece = static_cast<std::size_t>(stage); piece + 1 < cuts.size();
         piece += static_cast<std::size_t>(layout.pipe)) {
      passes_.push_back({cuts[piece], cuts[piece + 1]});
    }
    for (const auto& parameter : costs.parameters) {
      if (is_here(parameter.name)) (parameter.tensor.requires_grad() ? trained_ : fixed_).push_back(parameter);
    }
    for (const auto& buffer : costs.buffers) {
      if (is_here(buffer.name)) fixed_.push_back(buffer);
    }
  }

  MemoryUse use() const {
    const bool shares =
        layout_.zero > 0 && (!facts_.fuses(layout_, costs_.sparse) || layout_.offload != kOffloadNothing);
    MemoryUse use = shares ? shared_out() : replicated();
    use.weights += bytes_of(fixed_);
    use.activations = activations();
    use.buffers += messages();
    use.staging = staged(use, shares);
    return use;
  }

 private:
  bool is_here(const std::string& name) const {
    return std::any_of(passes_.begin(), passes_.end(), [&](const Pass& pass) {
      return std::any_of(costs_.chain.begin() + static_cast<std::ptrdiff_t>(pass.first),
                         costs_.chain.begin() + static_cast<std::ptrdiff_t>(pass.last),
                         [&](const parallel::Link& link) { return parallel::uses(link, name); });
    });
  }

  // ---- weights, gradients, states -----------------------------------------------------------

  MemoryUse replicated() const {
    const std::int64_t bytes = bytes_of(trained_);
    const std::int64_t states = facts_.optimizer_states * bytes;
    return {.weights = bytes,
            .gradients = bytes,
            .optimizer = facts_.fuses(layout_, costs_.sparse) ? states / layout_.data : states};
  }

  /// As ShardedParallel does it.
  MemoryUse shared_out() const {
    const int ranks = layout_.zero_ranks > 0 ? layout_.zero_ranks : layout_.data;
    const auto tied =
        layout_.pipe > 1 ? parallel::tied_modules(costs_.chain, cuts_, layout_.pipe) : std::vector<std::string>{};
    const parallel::Link of_tied{"tied", tied, {}};
    std::set<std::string> alone;
    for (const auto& parameter : trained_) {
      if (parallel::uses(of_tied, parameter.name)) alone.insert(parameter.name);
    }
    const auto units =
        parallel::units_of(trained_, costs_.chain, cuts_, alone, layout_.unit_bytes, ranks, costs_.partial);
    MemoryUse use;
    std::int64_t whole = 0;
    std::vector<std::int64_t> shards;
    for (const auto& unit : units) {
      const std::int64_t bytes = unit.bytes(), shard = bytes / ranks;
      whole += bytes;
      shards.push_back(shard);
      const std::int64_t states = facts_.optimizer_states * shard;
      const bool weights_in_file = layout_.offload == kOffloadAll, states_in_file = layout_.offload != kOffloadNothing;
      if (weights_in_file) use.disk += shard;
      if (states_in_file) use.disk += states;
      if (!weights_in_file) use.weights += layout_.zero < 3 ? bytes : shard;
      if (!states_in_file) use.optimizer += states;
      use.gradients += shard;
    }
    use.disk_is_memory = facts_.disk_is_memory;
    use.buffers = buffers_of_disk(units, ranks);
    // A checkpoint reads what is on disk parameter by parameter.
    if (layout_.offload != kOffloadNothing && facts_.staging_bytes > 0 && !shards.empty())
      use.buffers += *std::max_element(shards.begin(), shards.end());
    const bool in_pieces = layout_.micro_batches > 1;
    if (layout_.zero == 1) {
      // They stay on this rank until the last piece.
      use.gradients += in_pieces ? whole : gradients_on_their_way(units);
      return use;
    }
    use.buffers += gradients_on_their_way(units);
    if (layout_.zero == 3) use.buffers += gathered(units);
    // Shards that are added to those of pieces before: one is summed, and one is on its way.
    if (!in_pieces || shards.empty()) return use;
    std::sort(shards.begin(), shards.end(), std::greater<>());
    use.buffers += shards[0] + (shards.size() > 1 ? shards[1] : layout_.micro_batches > 2 ? shards[0] : 0);
    return use;
  }

  /// Through which shards pass that lie in a file.
  std::int64_t buffers_of_disk(const std::vector<parallel::Unit>& units, int ranks) const {
    if (layout_.offload == kOffloadNothing) return 0;
    std::vector<parallel::Offload::Run> shards;
    for (const auto& unit : units) shards.push_back({unit.elements / ranks, unit.type});
    return parallel::Offload::memory_bytes_of(
        {.weights = layout_.offload == kOffloadAll, .states = static_cast<int>(facts_.optimizer_states)}, shards);
  }

  /// Of a link and the next, of which the one is used while the other comes, if there is room for both.
  std::int64_t gathered(const std::vector<parallel::Unit>& units) const {
    const parallel::Overlap overlap(units);
    std::int64_t most = 0;
    for (const auto& [first, last] : passes_) {
      for (std::size_t link = first; link < last; ++link) {
        const bool with_next = link + 1 < last && overlap.together(link, link + 1);
        std::int64_t bytes = 0;
        for (const auto& unit : units) {
          if (unit.used_by(link) || (with_next && unit.used_by(link + 1))) bytes += unit.bytes();
        }
        most = std::max(most, bytes);
      }
    }
    return most;
  }

  /// Those that backward computes, and the ones before, which are being summed, if there is room for both.
  std::int64_t gradients_on_their_way(const std::vector<parallel::Unit>& units) const {
    if (layout_.pipe > 1 && parallel::splits_backward(schedule())) {
      // What is not put off, as of biases, has come for all units before the rest is computed; meanwhile the unit that
      // was sent last, of the first link, is on its way.
      std::int64_t all = 0, last = 0;
      for (const auto& unit : units) {
        all += unit.bytes();
        if (layout_.micro_batches > 1 && unit.used_by(passes_.front().first)) last = std::max(last, unit.bytes());
      }
      return all + last;
    }
    const parallel::Overlap overlap(units);
    std::int64_t most = 0, sent = 0;
    auto passes = passes_;
    if (layout_.micro_batches > 1) passes.insert(passes.end(), passes_.begin(), passes_.end());
    for (const auto& [first, last] : passes) {
      std::set<const parallel::Unit*> computed;
      for (std::size_t link = last; link-- > first;) {
        for (const auto& unit : units) {
          if (unit.used_by(link)) computed.insert(&unit);
        }
        std::int64_t bytes = sent;
        for (const auto* unit : computed) bytes += unit->bytes();
        most = std::max(most, bytes);
        for (auto unit = computed.begin(); unit != computed.end();) {
          const bool goes_on = link > first && (*unit)->used_by(link - 1);
          if (!goes_on) sent = (*unit)->bytes();
          unit = goes_on ? std::next(unit) : computed.erase(unit);
        }
        if (link > first && !overlap.together(link, link - 1)) sent = 0;
      }
    }
    return most;
  }

  /// As CheckpointSaver does it.
  std::int64_t staged(const MemoryUse& use, bool shares) const {
    const bool own_states = !shares && facts_.fuses(layout_, costs_.sparse);
    const int sharers = !shares ? 1 : layout_.zero_ranks > 0 ? layout_.zero_ranks : layout_.data;
    const int writers = layout_.data / sharers;  // of the same
    std::int64_t largest = 0;                    // a tensor is not cut
    for (const auto& one : trained_) largest = std::max(largest, static_cast<std::int64_t>(one.tensor.nbytes()));
    // Of weights that all have for a step, too, a rank writes what it owns.
    const std::int64_t weights = shares && layout_.zero < 3 ? use.weights / sharers : use.weights;
    const std::int64_t common = weights + (own_states ? 0 : use.optimizer);
    const std::int64_t written = std::min(common, common / writers + largest) + (own_states ? use.optimizer : 0);
    return std::min(facts_.staging_bytes, written);
  }

  // ---- activations ----------------------------------------------------------------------------

  bool recomputes(std::size_t link) const {
    return layout_.recompute_every > 0 && link % static_cast<std::size_t>(layout_.recompute_every) == 0;
  }
  double at_once(const parallel::Amount& amount) const { return amount.at(facts_.samples_at_once(layout_)); }
  double kept(std::size_t link) const {
    return at_once(recomputes(link) ? costs_.links[link].output : costs_.links[link].kept);
  }
  double input_of(const Pass& pass) const {
    return at_once(pass.first == 0 ? costs_.input : costs_.links[pass.first - 1].output);
  }

  std::int64_t activations() const {
    double most_held = 0, most_at_work = 0;
    for (const Pass& pass : passes_) {
      double held = input_of(pass), at_work = held;
      for (std::size_t link = pass.first; link < pass.last; ++link) {
        at_work = std::max(at_work, held + at_once(costs_.links[link].peak));
        held += kept(link);
      }
      if (pass.last == costs_.links.size()) at_work = std::max(at_work, held + at_once(costs_.loss.peak));
      most_held = std::max(most_held, held);
      most_at_work = std::max(most_at_work, at_work);
    }
    const int in_flight = layout_.pipe > 1 ? most_in_flight(stage_) : 1;
    return static_cast<std::int64_t>((in_flight - 1) * most_held + most_at_work);
  }

  parallel::PipelineSchedule schedule() const {
    return parallel::make_pipeline_schedule(layout_.schedule, layout_.pipe, static_cast<int>(layout_.micro_batches),
                                            layout_.chunks);
  }
  int most_in_flight(int stage) const { return parallel::peak_in_flight(schedule(), stage); }

  /// Between stages, as far as the next is behind: before it has values, this stage does not see their slopes, and
  /// before the last has slopes, that one has their micro-batch under way.
  std::int64_t messages() const {
    if (layout_.pipe == 1) return 0;
    double values = 0, slopes = 0;
    for (const Pass& pass : passes_) {
      if (pass.last < costs_.links.size()) values = std::max(values, at_once(costs_.links[pass.last - 1].output));
      if (pass.first > 0) slopes = std::max(slopes, input_of(pass));
    }
    return static_cast<std::int64_t>(values * most_in_flight(stage_) +
                                     slopes * most_in_flight((stage_ + layout_.pipe - 1) % layout_.pipe));
  }

  const ModelCosts& costs_;
  const Layout& layout_;
  const RunFacts& facts_;
  const std::vector<std::size_t>& cuts_;
  int stage_;
  std::vector<Pass> passes_;
  Parameters trained_, fixed_;  // of this stage
};

}  // namespace

std::vector<MemoryUse> forecast(const ModelCosts& costs, const Layout& layout, const RunFacts& facts) {
  const auto cuts = cuts_of(costs, layout, facts);
  std::vector<MemoryUse> uses;
  for (int stage = 0; stage < layout.pipe; ++stage) {
    uses.push_back(StageForecast(costs, layout, facts, cuts, stage).use());
  }
  return uses;
}

MemoryUse worst(const std::vector<MemoryUse>& stages) {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const MemoryUse& one, const MemoryUse& other) { return one.total() < other.total(); });
}

std::int64_t needed_bytes(const MemoryUse& use) { return use.total() + use.total() / 8; }

MemoryUse most_of_each(const std::vector<MemoryUse>& stages) {
  MemoryUse most;
  for (const auto& use : stages) {
    most.disk_is_memory |= use.disk_is_memory;
    for (const auto kind : {&MemoryUse::weights, &MemoryUse::gradients, &MemoryUse::optimizer, &MemoryUse::activations,
                            &MemoryUse::buffers, &MemoryUse::staging, &MemoryUse::disk}) {
      most.*kind = std::max(most.*kind, use.*kind);
    }
  }
  return most;
}

}  // namespace lockstep::train
