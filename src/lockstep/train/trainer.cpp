#include "lockstep/train/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"
#include "lockstep/parallel/running_statistics.h"
#include "lockstep/profile/span.h"
#include "lockstep/train/shards.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Loss and count of every shard, which all ranks get to know of all.
class ShardScores {
 public:
  ShardScores(const Shards& shards, comm::Communicator& group)
      : shards_(shards), group_(group), table_(at::zeros({shards.total, 2}, at::kDouble)) {}

  void clear() { table_.zero_(); }
  void add(int shard, const Score& score) {
    auto* row = table_.mutable_data_ptr<double>() + 2 * (shards_.own.first + shard);
    row[0] += score.loss.item<double>();
    row[1] += static_cast<double>(score.count);
  }
  /// Zeros of the others make it a gathering whose order of addition does not matter.
  comm::Work share() { return group_.all_reduce_(table_, comm::ReduceOp::Sum, {.name = "losses"}); }

  double loss() const { return sum(0); }
  double count() const { return sum(1); }
  /// -1: all are finite.
  int first_not_finite() const {
    for (int shard = 0; shard < shards_.total; ++shard) {
      if (!std::isfinite(table_.const_data_ptr<double>()[2 * shard])) return shard;
    }
    return -1;
  }

 private:
  double sum(int column) const {
    double result = 0;
    for (int shard = 0; shard < shards_.total; ++shard) result += table_.const_data_ptr<double>()[2 * shard + column];
    return result;
  }

  const Shards& shards_;
  comm::Communicator& group_;
  at::Tensor table_;
};

Shards shards_of(const comm::Communicator& group, const TrainerSettings& settings) {
  if (!settings.exact) return Shards::of(group);
  if (settings.shards < group.size() || (settings.shards & (settings.shards - 1)) != 0) {
    fail(Fault::Usage, fmt::format("shards = {} of exact mode: a power of two, and at least as many as the {} ranks",
                                   settings.shards, group.size()));
  }
  return Shards::of(group, settings.shards);
}

RunLength length_of(const TrainerSettings& settings, std::int64_t samples) {
  const std::int64_t steps_of_epoch = (samples + settings.batch - 1) / settings.batch;
  const std::int64_t steps = settings.steps > 0 ? settings.steps : settings.epochs * steps_of_epoch;
  return {steps, steps_of_epoch};
}

std::shared_ptr<const data::Order> order_of(const TrainingData& data, std::uint64_t seed) {
  return data::make_order(data.order, {.samples = data.train->size(), .seed = seed});
}

/// One run: what fit() has made of its arguments, and the loop.
class Run {
 public:
  Run(comm::Communicator& group, const TrainerSettings& settings, std::vector<std::shared_ptr<Observer>>& observers,
      Task& task, const TrainingData& data)
      : group_(group),
        settings_(settings),
        observers_(observers),
        task_(task),
        data_(data),
        shards_(shards_of(group, settings)),
        length_(length_of(settings, data.train->size())),
        schedule_(settings.schedule ? settings.schedule(length_) : make_schedule(Config(), "schedule", length_)),
        engine_(parallel::parameters_of(task.model()), group),
        statistics_(parallel::buffers_of(task.model()), group),
        scores_(shards_, group),
        loader_(
            data.train, order_of(data, settings.seed),
            {.batch = settings.batch, .share = shards_.share(), .seed = settings.seed, .transforms = data.transforms}) {
    if (settings.exact) at::set_num_threads(1);
  }

  RunResult go() {
    start();
    begun_ = Clock::now();
    while (step_ < length_.steps) {
      const data::Batch* batch = loader_.next();
      if (batch != nullptr) {
        take_step(*batch);
      } else {
        end_epoch();
      }
    }
    if (data_.test) evaluate("test", data_.test);
    for (const auto& observer : observers_) observer->on_end();
    result_.steps = step_;
    return std::move(result_);
  }

 private:
  void start() {
    task_.model().train();
    RunInfo info{length_, 0, data_.train->size(), settings_.batch, 0};
    for (const auto& parameter : engine_.parameters()) info.parameters += parameter.tensor.numel();
    for (const auto& observer : observers_) observer->on_start(info);
  }

  void take_step(const data::Batch& batch) {
    const auto begin = Clock::now();
    const profile::Span span("step");
    comm::Work losses = backward(batch);
    engine_.finish();
    losses.wait();
    if (settings_.exact) statistics_.finish(shards_.total);
    check_finite(batch);
    const double lr = settings_.lr * schedule_->factor(step_);
    if (!optimizer_) {
      optimizer_.emplace(settings_.optimizer, engine_.parameters(), engine_.buckets(), settings_.groups);
    }
    // Backward has divided by the number of samples already; what is counted may be tokens, or fewer.
    optimizer_->step(lr, clip_scale(static_cast<double>(batch.global_count) / scores_.count()));
    ++step_;
    result_.loss = scores_.loss() / scores_.count();
    const StepReport report{step_,
                            batch.epoch,
                            batch.global_count,
                            result_.loss,
                            lr,
                            seconds_since(begin),
                            seconds_since(begun_),
                            engine_.waited_s(),
                            loader_.waited_s()};
    for (const auto& observer : observers_) observer->on_step(report);
  }

  comm::Work backward(const data::Batch& batch) {
    scores_.clear();
    engine_.drop_gradients();
    comm::Work losses;
    for (int shard = 0; shard < shards_.own.count; ++shard) {
      if (settings_.exact) {
        engine_.begin_shard(shard, shards_.own.count);
        statistics_.begin_shard(shard);
      }
      const auto [first, last] = shards_.range(batch, shard);
      const bool last_shard = shard + 1 == shards_.own.count;
      for (std::int64_t piece = 0; piece < settings_.accumulate; ++piece) {
        const std::int64_t from = first + (last - first) * piece / settings_.accumulate;
        const std::int64_t to = first + (last - first) * (piece + 1) / settings_.accumulate;
        const bool last_piece = piece + 1 == settings_.accumulate;
        engine_.reduce_in_backward(last_piece);
        if (to > from) {
          parallel::random_key() = {settings_.seed, step_ * settings_.accumulate + piece, shards_.own.first + shard};
          const Score score = task_.score(part_of(batch, from, to - from));
          scores_.add(shard, score);
          if (last_shard && last_piece) losses = scores_.share();
          (score.loss / static_cast<double>(batch.global_count)).backward();
        } else if (last_shard && last_piece) {
          losses = scores_.share();
        }
      }
      if (settings_.exact) statistics_.end_shard(shard, shards_.own.count);
    }
    return losses;
  }

  /// All ranks see the same losses, so all of them fail, before the weights are spoilt.
  void check_finite(const data::Batch& batch) const {
    const int shard = scores_.first_not_finite();
    if (shard < 0) return;
    fail(Fault::Data,
         fmt::format("the loss of {} {} is not finite in step {} (epoch {}, samples {} to {} of its order); "
                     "lower optimizer.lr or set clip_norm",
                     settings_.exact ? "shard" : "rank", shard, step_ + 1, batch.epoch, batch.position,
                     batch.position + batch.global_count - 1));
  }

  /// By which gradients are to be multiplied, clipping included.
  double clip_scale(double scale) const {
    const at::NoGradGuard no_gradients;
    if (settings_.clip_value > 0) {
      for (const auto& bucket : engine_.buckets().all()) {
        at::Tensor gradients = bucket.gradients;
        gradients.clamp_(-settings_.clip_value / scale, settings_.clip_value / scale);
      }
    }
    if (settings_.clip_norm <= 0) return scale;
    double squares = 0;
    for (const auto& bucket : engine_.buckets().all()) {
      const auto norm = bucket.gradients.norm().item<double>();
      squares += norm * norm;
    }
    const double norm = scale * std::sqrt(squares);
    return scale * std::min(1.0, settings_.clip_norm / (norm + 1e-6));
  }

  void end_epoch() {
    engine_.check_equal();
    if (!data_.validation) return;
    evaluate("validation", data_.validation);
    schedule_->observe(result_.evaluations.back().figures[0].second);
  }

  void evaluate(const std::string& of, const data::DatasetPtr& set) {
    const profile::Span span("evaluate");
    const at::NoGradGuard no_gradients;
    if (!settings_.exact) statistics_.take_from_first_rank();
    task_.model().eval();
    data::Loader loader(
        set, std::shared_ptr<const data::Order>(data::make_order("sequential", {.samples = set->size(), .seed = 0})),
        {.batch = settings_.evaluation_batch, .share = shards_.share(), .transforms = data_.evaluation_transforms});
    ShardScores scores(shards_, group_);
    std::vector<at::Tensor> sums(settings_.metrics.size());
    std::int64_t samples = 0;
    while (const data::Batch* batch = loader.next()) {
      samples += batch->global_count;
      for (int shard = 0; shard < shards_.own.count; ++shard) {
        const auto [first, last] = shards_.range(*batch, shard);
        if (first == last) continue;
        const Score score = task_.score(part_of(*batch, first, last - first));
        scores.add(shard, score);
        for (std::size_t number = 0; number < sums.size(); ++number) {
          const at::Tensor more = settings_.metrics[number]->sums(score);
          sums[number] = sums[number].defined() ? sums[number] + more : more;
        }
      }
    }
    scores.share().wait();
    Evaluation evaluation{of, step_, length_.steps_of_epoch > 0 ? step_ / length_.steps_of_epoch : 0, samples, {}};
    evaluation.figures.emplace_back("loss", scores.loss() / scores.count());
    for (std::size_t number = 0; number < sums.size(); ++number) {
      for (auto& figure : settings_.metrics[number]->figures(summed_over_ranks(sums[number]))) {
        evaluation.figures.push_back(std::move(figure));
      }
    }
    task_.model().train();
    for (const auto& observer : observers_) observer->on_evaluation(evaluation);
    result_.evaluations.push_back(std::move(evaluation));
  }

  /// A rank may have had no samples, and so not even know how many numbers there are.
  at::Tensor summed_over_ranks(const at::Tensor& mine) {
    at::Tensor size = at::zeros({1}, at::kLong);
    if (mine.defined()) size.fill_(mine.numel());
    group_.all_reduce_(size, comm::ReduceOp::Max, {.name = "metric"}).wait();
    at::Tensor sum = mine.defined() ? mine.contiguous() : at::zeros({size.item<std::int64_t>()}, at::kDouble);
    group_.all_reduce_(sum, comm::ReduceOp::Sum, {.name = "metric"}).wait();
    return sum;
  }

  comm::Communicator& group_;
  const TrainerSettings& settings_;
  std::vector<std::shared_ptr<Observer>>& observers_;
  Task& task_;
  const TrainingData& data_;
  Shards shards_;
  RunLength length_;
  std::unique_ptr<Schedule> schedule_;
  parallel::DataParallel engine_;
  parallel::RunningStatistics statistics_;
  ShardScores scores_;
  data::Loader loader_;
  std::optional<parallel::BucketOptimizer> optimizer_;  // made when the buckets have found their places
  std::int64_t step_ = 0;
  Clock::time_point begun_;
  RunResult result_;
};

void check(const TrainerSettings& settings) {
  if (!settings.optimizer) fail(Fault::Usage, "no optimizer is set");
  if (settings.batch < 1 || settings.accumulate < 1 || settings.evaluation_batch < 1) {
    fail(Fault::Usage, fmt::format("batch {}, accumulate {} and evaluation batch {} are from 1 on", settings.batch,
                                   settings.accumulate, settings.evaluation_batch));
  }
  if (settings.steps < 0 || settings.epochs < 0) {
    fail(Fault::Usage, fmt::format("epochs {} and steps {} are from 0 on", settings.epochs, settings.steps));
  }
}

}  // namespace

Trainer::Trainer(comm::Communicator& group, TrainerSettings settings) : group_(group), settings_(std::move(settings)) {
  check(settings_);
}

void Trainer::add(std::shared_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }

RunResult Trainer::fit(Task& task, const TrainingData& data) {
  return Run(group_, settings_, observers_, task, data).go();
}

std::string hash_of(const torch::nn::Module& model) {
  Hasher hasher;
  for (const auto& all : {parallel::parameters_of(model), parallel::buffers_of(model)}) {
    for (const auto& [name, tensor] : all) {
      const at::Tensor values = tensor.detach().cpu().contiguous();
      hasher.update(name.data(), name.size());
      hasher.update(values.const_data_ptr(), values.nbytes());
    }
  }
  return hasher.hex();
}

}  // namespace lockstep::train
