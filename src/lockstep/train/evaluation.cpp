#include "lockstep/train/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "lockstep/data/loader.h"
#include "lockstep/train/step_board.h"

namespace lockstep::train {
namespace {

/// A rank may have had no samples, and so not even know how many numbers there are.
at::Tensor summed_over_ranks(const at::Tensor& mine, comm::Communicator& group) {
  at::Tensor size = at::zeros({1}, at::kLong);
  if (mine.defined()) size.fill_(mine.numel());
  group.all_reduce_(size, comm::ReduceOp::Max, {.name = "metric"}).wait();
  at::Tensor sum = mine.defined() ? mine.contiguous() : at::zeros({size.item<std::int64_t>()}, at::kDouble);
  group.all_reduce_(sum, comm::ReduceOp::Sum, {.name = "metric"}).wait();
  return sum;
}

}  // namespace

Figures figures_of(const data::DatasetPtr& set, const EvaluationSettings& settings, const Shards& shards,
                   comm::Communicator& group,
                   const std::function<Score(const data::Batch&, std::int64_t first, std::int64_t last)>& score) {
  data::Loader loader(
      set, std::shared_ptr<const data::Order>(data::make_order("sequential", {.samples = set->size(), .seed = 0})),
      {.batch = settings.batch, .share = shards.share(), .transforms = settings.transforms});
  StepBoard scores(shards, group);
  std::vector<at::Tensor> sums(settings.metrics.size());
  while (const data::Batch* batch = loader.next()) {
    for (int shard = 0; shard < shards.own.count; ++shard) {
      const auto [first, last] = shards.range(*batch, shard);
      if (first == last) continue;
      const Score one = score(*batch, first, last);
      scores.add(shard, one);
      for (std::size_t number = 0; number < sums.size(); ++number) {
        const at::Tensor more = settings.metrics[number]->sums(one).cpu();
        sums[number] = sums[number].defined() ? sums[number] + more : more;
      }
    }
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
