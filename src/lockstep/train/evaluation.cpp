#include "lockstep/train/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "lockstep/data/loader.h"
#include "lockstep/parallel/tree_sum.h"
#include "lockstep/train/step_board.h"

namespace lockstep::train {
namespace {

bool agreed(bool mine, comm::Communicator& group) {
  const at::Tensor any = at::full({1}, mine ? 1 : 0, at::kInt);
  group.all_reduce_(any, comm::ReduceOp::Max, {.name = "break off"}).wait();
  return any.item<int>() > 0;
}

/// In the fixed tree, as all sums of shards. A shard may have had no samples, and a rank so not even know how many
/// numbers there are.
at::Tensor summed_over_ranks(const std::vector<at::Tensor>& by_shard, comm::Communicator& group) {
  at::Tensor size = at::zeros({1}, at::kLong);
  for (const auto& sums : by_shard) {
    if (sums.defined()) size.fill_(sums.numel());
  }
  group.all_reduce_(size, comm::ReduceOp::Max, {.name = "metric"}).wait();
  parallel::TreeSum tree;
  at::Tensor sum;
  for (std::uint32_t shard = 0; shard < by_shard.size(); ++shard) {
    sum = by_shard[shard].defined() ? by_shard[shard] : at::zeros({size.item<std::int64_t>()}, at::kDouble);
    tree.fold_(sum, shard);
    if (shard + 1 < by_shard.size()) tree.keep(sum, shard);
  }
  group.all_reduce_(sum, comm::ReduceOp::Sum, {.name = "metric"}).wait();
  return sum;
}

}  // namespace

std::optional<Figures> figures_of(
    const data::DatasetPtr& set, const EvaluationSettings& settings, const Shards& shards, comm::Communicator& group,
    const std::function<std::optional<Score>(const data::Batch&, std::int64_t first, std::int64_t last)>& score) {
  data::Loader loader(
      set, std::shared_ptr<const data::Order>(data::make_order("sequential", {.samples = set->size(), .seed = 0})),
      {.batch = settings.batch, .share = shards.share(), .transforms = settings.transforms, .pinned = settings.pinned});
  StepBoard scores(shards, group);
  // By metric, then by shard of this rank.
  std::vector<std::vector<at::Tensor>> sums(settings.metrics.size(),
                                            std::vector<at::Tensor>(static_cast<std::size_t>(shards.own.count)));
  while (const data::Batch* batch = loader.next()) {
    for (int shard = 0; shard < shards.own.count; ++shard) {
      const auto [first, last] = shards.range(*batch, shard);
      const auto one = score(*batch, first, last);
      if (!one) continue;
      scores.add(shard, *one);
      for (std::size_t number = 0; number < sums.size(); ++number) {
        at::Tensor& sum = sums[number][static_cast<std::size_t>(shard)];
        const at::Tensor more = settings.metrics[number]->sums(*one).cpu().contiguous();
        sum = sum.defined() ? sum + more : more;
      }
    }
    if (agreed(settings.break_off(), group)) return std::nullopt;
  }
  scores.share().wait();
  Figures figures = {{"loss", scores.loss() / scores.count()}};
  for (std::size_t number = 0; number < sums.size(); ++number) {
    for (auto& figure : settings.metrics[number]->figures(summed_over_ranks(sums[number], group))) {
      figures.push_back(std::move(figure));
    }
  }
  return figures;
}

}  // namespace lockstep::train
