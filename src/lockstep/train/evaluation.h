// lockstep/train/evaluation.h
//
// Passes a whole data set through a model, on all ranks together, and takes its figures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/train/metric.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

struct EvaluationSettings {
  std::int64_t batch;  // of all ranks together
  std::vector<std::string> transforms;
  std::vector<std::shared_ptr<const Metric>> metrics;
  bool pinned = false;  // batches lie in memory that a GPU reads by itself
  /// Asked after every batch: whether this rank would rather not go on.
  std::function<bool()> break_off;
};

/// The loss first, then what the metrics say; none if any rank broke off. `score` is of samples [first, last) of a
/// batch; none where another rank has it. A collective.
std::optional<Figures> figures_of(
    const data::DatasetPtr& set, const EvaluationSettings& settings, const Shards& shards, comm::Communicator& group,
    const std::function<std::optional<Score>(const data::Batch&, std::int64_t first, std::int64_t last)>& score);

}  // namespace lockstep::train
