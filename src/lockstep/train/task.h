// lockstep/train/task.h
//
// A Task is what is learned: a model, and the loss of some samples as a sum and a count,
// so that means over uneven ranks, shards and pieces stay exact. Everything else is the
// Trainer's. A task that recipes may name is one new file in tasks/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/core/config.h"
#include "lockstep/core/registry.h"
#include "lockstep/data/batch.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/cross_entropy.h"

namespace lockstep::train {

struct Score {
  at::Tensor loss;         // a scalar: the sum over what is counted
  std::int64_t count = 0;  // samples, or tokens
  // What metrics look at: one row per count.
  at::Tensor outputs;  // [count, classes]
  at::Tensor targets;  // [count]
};

class Task {
 public:
  virtual ~Task() = default;
  virtual torch::nn::Module& model() = 0;
  virtual Score score(const data::Batch& batch) = 0;
  /// Of samples on their way to a GPU, or to a model that is cut over ranks, which might not say what is wrong with
  /// them: Fault::Data if something is.
  virtual void check(const data::Batch& /*batch*/) const {}
};

/// A task whose model is a chain of links, which strategies may take apart: forward is that of the links one after
/// another.
class ChainTask : public Task {
 public:
  virtual const parallel::Chain& chain() = 0;
  /// Of the first link.
  virtual at::Tensor input(const data::Batch& batch) = 0;
  /// By the outputs of the last.
  virtual Score score_of(const at::Tensor& outputs, const data::Batch& batch) = 0;
  /// The first links of the stages of a pipeline, and the number of links at the end.
  virtual std::vector<std::size_t> cuts() { return {0, chain().size()}; }
  /// Which classes the outputs are of.
  virtual parallel::ClassSplit class_split() { return {}; }

  Score score(const data::Batch& batch) override { return score_of(parallel::run(chain(), input(batch)), batch); }
};

/// Some samples of a batch, without a copy.
data::Batch part_of(const data::Batch& batch, std::int64_t first, std::int64_t count);

/// What a model gave, as losses and metrics take it: half types become float32.
at::Tensor for_loss(const at::Tensor& outputs);

/// Of numbers [samples, …] that name one of `count` things, such as tokens: Fault::Data with the first sample that has
/// another, and the key of the recipe that says how many there are.
void check_numbers(const at::Tensor& numbers, std::int64_t count, const data::Batch& batch, const std::string& what,
                   const std::string& key);

/// How the task sees the data: fields that it names in the table `key` of the recipe.
class TaskKind {
 public:
  virtual ~TaskKind() = default;
  virtual models::ModelData model_data(const data::Schema& schema) const = 0;
  /// What the model takes.
  virtual at::Tensor input(models::Model& model, const data::Batch& batch) const = 0;
  /// By what it gives, which is of the classes that `split` says.
  virtual Score score(const at::Tensor& outputs, const data::Batch& batch, const parallel::ClassSplit& split) const = 0;
  /// Fault::Data if there are numbers in it that the model or the loss cannot take.
  virtual void check(const data::Batch& batch) const = 0;
  /// Metrics that a recipe gets without asking.
  virtual std::vector<std::string> metrics() const = 0;
};
using TaskRegistry = Registry<std::unique_ptr<TaskKind>(const Config& recipe, const std::string& key)>;

}  // namespace lockstep::train
