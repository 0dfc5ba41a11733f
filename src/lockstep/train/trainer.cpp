#include "lockstep/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/broadcast.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/running_statistics.h"
#include "lockstep/profile/span.h"
#include "lockstep/train/data_facts.h"
#include "lockstep/train/device.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/examination.h"
#include "lockstep/train/gradients.h"
#include "lockstep/train/local_average.h"
#include "lockstep/train/result_so_far.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/run_length.h"
#include "lockstep/train/run_state.h"
#include "lockstep/train/shard_work.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/step_board.h"
#include "lockstep/train/stop_request.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char kValidation[] = "validation";
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Shards shards_of(const comm::Communicator& group, const TrainerSettings& settings) {
  return settings.exact ? Shards::of(group, settings.shards) : Shards::of(group);
}

std::shared_ptr<const data::Order> order_of(const TrainingData& data, std::uint64_t seed) {
  return data::make_order(data.order, {.samples = data.train->size(), .seed = seed, .groups = data.groups});
}

std::unique_ptr<Schedule> schedule_of(const TrainerSettings& settings, const RunLength& length) {
  return settings.schedule ? settings.schedule(length) : make_schedule(Config(), "schedule", length);
}

torch::nn::Module& prepared(torch::nn::Module& model, Precision precision, c10::Device device) {
  convert_(model, precision);
  move_(model, device);
  parallel::name_layers(model);  // for models that nobody has made by name
  return model;
}

/// One run: what fit() has made of its arguments, and the loop.
class Run {
 public:
  Run(comm::Communicator& group, const TrainerSettings& settings,
      const std::vector<std::shared_ptr<Observer>>& observers, Task& task, const TrainingData& data)
      : group_(group),
        settings_(settings),
        observers_(settings.callbacks.begin(), settings.callbacks.end()),
        task_(task),
        data_(data),
        shards_(shards_of(group, settings)),
        fused_(fuses(settings, task.model(), group)),
        order_(order_of(data, settings.seed)),
        samples_(order_->length()),
        device_(device_of(settings.device, group)),
        data_facts_(data_facts(data, settings.seed)),
        resumed_(resume(settings.checkpoints, group, prepared(task.model(), settings.precision, device_), data_facts_)),
        length_(length_of(settings, samples_, resumed_)),
        schedule_lead_(schedule_lead(settings, samples_, resumed_)),
        schedule_(schedule_of(settings, {length_.steps + schedule_lead_, length_.steps_of_epoch})),
        engine_(parallel::parameters_of(task.model()), group,
                {.sparse = parallel::sparse_parameters_of(task.model()),
                 .wire = settings.wire ? settings.wire() : nullptr,
                 .local = settings.local_steps > 0}),
        work_(settings, shards_, device_, task, engine_),
        statistics_(parallel::buffers_of(task.model()), group),
        board_(shards_, group),
        board_goes_first_(fused_ || device_.is_cpu()),
        saver_(settings.checkpoints, group),
        loader_(data.train, order_,
                {.batch = settings.batch,
                 .share = shards_.share(),
                 .seed = settings.seed,
                 .transforms = data.transforms,
                 .start = resumed_.position(),
                 .pinned = device_.is_cuda()}),
        scaler_(settings.precision == Precision::Fp16 ? std::optional<LossScaler>(settings.loss_scale) : std::nullopt),
        state_{*schedule_, scaler_ ? &*scaler_ : nullptr, settings.callbacks} {
    if (settings.exact) one_thread_.emplace();
    if (settings.exact) check_exact(task.model());
    if (schedule_->needs_validation() && !data.validation) {
      fail(Fault::Usage, fmt::format("schedule.name = \"{}\" follows the loss of validations, and there are none: set "
                                     "data.validation",
                                     schedule_->name));
    }
    if (settings.sync_batch_norm) synced_norms_.emplace(task.model(), group);
    observers_.insert(observers_.end(), observers.begin(), observers.end());
  }

  ~Run() { engine_.update_with({}); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  RunResult go() {
    start();
    while (!at_end()) {
      const auto asked = Clock::now();
      const data::Batch* batch = loader_.next();
      if (batch == nullptr) continue;  // an epoch has ended
      steps_s_ += seconds_since(asked);
      const bool last_of_epoch = batch->position + batch->global_count == samples_;
      take_step(*batch);
      if (last_of_epoch) average();
      check_now_and_then(last_of_epoch);
      if (last_of_epoch) end_epoch();
      hear_callbacks();
      look_after_checkpoints(last_of_epoch);
    }
    average();
    if (saver_.under_way()) last_is_saved(saver_.finish());
    if (!result_.stopped && data_.test) evaluate("test", data_.test);
    result_.stopped = result_.stopped || broken_off_;
    for (const auto& observer : observers_) observer->on_end();
    sum_up();
    return std::move(result_);
  }

 private:
  void start() {
    task_.model().train();
    begun_ = Clock::now();
    share_frozen();
    if (resumed_.any()) {
      step_ = first_step_ = resumed_.step();
      result_ = before_ = noted_result(resumed_.facts);
      saver_.recall(result_.evaluations);
    }
    for (const auto& callback : settings_.callbacks) {
      callback->attach(task_.model());
      if (settings_.local_steps > 0) check_local(*callback);
    }
    restore(state_, resumed_, group_);
    hear_callbacks();
    tell_of_start();
    if (!validation_is_due()) return;
    end_epoch();
    hear_callbacks();
    result_.stopped = broken_off_;
  }

  void tell_of_start() {
    RunInfo info{.length = length_,
                 .first_step = step_,
                 .samples = samples_,
                 .batch = settings_.batch,
                 .validates = data_.validation != nullptr,
                 .figures = figure_names(settings_.metrics),
                 .ranks = group_.size()};
    for (const auto& parameter : engine_.parameters()) info.parameters += parameter.tensor.numel();
    if (saver_.wanted() && data_.validation && settings_.checkpoints.keep_best > 0) {
      check_figure(settings_.checkpoints.best_by, info.figures, "checkpoints.best_by");
    }
    // The epoch under way may end sooner than a whole one; who resumes has seen this before.
    if (info.validates && !resumed_.any() && length_.steps < length_.steps_of_epoch && group_.rank() == 0) {
      log().warn("validation comes after every epoch, of {} steps, and the run ends before the first does",
                 length_.steps_of_epoch);
    }
    for (const auto& observer : observers_) observer->on_start(info);
  }

  /// The run was stopped in the midst of it.
  bool validation_is_due() const {
    if (!data_.validation || !resumed_.any() || resumed_.position().sample != samples_) return false;
    return std::none_of(result_.evaluations.begin(), result_.evaluations.end(), [this](const Evaluation& evaluation) {
      return evaluation.of == kValidation && evaluation.step == step_;
    });
  }

  std::int64_t epochs_done() const {
    const data::Position position = loader_.position();
    return position.epoch + (position.sample == samples_ ? 1 : 0);
  }

  /// What was done before the run was resumed counts.
  void sum_up() {
    result_.steps = step_;
    if (step_ > 0) {
      result_.imbalance =
          (before_.imbalance * static_cast<double>(first_step_) + imbalance_sum_) / static_cast<double>(step_);
    }
    result_.seconds = before_.seconds + steps_s_;
    if (result_.seconds > 0) {
      result_.waited_share = (before_.waited_share * before_.seconds + waited_s_) / result_.seconds;
    }
  }

  /// What is trained the engine has given to all ranks; of the rest, rank 0 alone may have read a checkpoint.
  void share_frozen() {
    parallel::Parameters frozen = parallel::parameters_of(task_.model());
    std::erase_if(frozen, [](const auto& parameter) { return parameter.tensor.requires_grad(); });
    parallel::broadcast_(frozen, group_, 0, "frozen weights");
  }

  /// Not between two averages of local steps.
  void check_now_and_then(bool end_of_epoch) const {
    const bool now = settings_.check_every_steps > 0 && step_ % settings_.check_every_steps == 0;
    if (end_of_epoch || (now && !local_.due())) engine_.check_equal();
  }

  bool at_end() const { return step_ >= length_.steps || result_.stopped || !result_.ended_early.empty(); }

  void hear_callbacks() {
    for (const auto& callback : settings_.callbacks) {
      const std::string why = callback->wants_end();
      if (!why.empty() && result_.ended_early.empty()) result_.ended_early = callback->name() + ": " + why;
    }
  }

  /// Between averages ranks have weights and gradients of their own, and would not do the same.
  static void check_local(const Callback& callback) {
    if (!callback.looks_at_gradients() && callback.tensors().empty()) return;
    fail(Fault::Usage,
         fmt::format("callbacks.{} does not go with local_steps: it looks at weights or gradients in every "
                     "step, when ranks differ; leave out one of them",
                     callback.name()));
  }

  void take_step(const data::Batch& batch) {
    const auto begin = Clock::now();
    const profile::Span span("step");
    const double lr = settings_.lr * schedule_->factor(step_ + schedule_lead_);
    const double waited_before = waited_in_layers_s();
    samples_of_step_ = batch.global_count;
    if (optimizer_ && fused_) optimizer_->begin_step(lr);
    backward(batch);
    const bool first = engine_.lay_out();
    if (first) {
      make_optimizer();
      if (fused_) optimizer_->begin_step(lr);
    }
    const auto done = Clock::now();
    const double waited_in_layers = waited_in_layers_s() - waited_before;
    computed_s_ = std::chrono::duration<double>(done - begin).count() - waited_in_layers;
    engine_.finish();
    if (!board_goes_first_) board_shared_ = board_.share();
    board_shared_.wait();
    if (group_.size() > 1) waited_s_ += seconds_since(done) + waited_in_layers;
    if (first && group_.rank() == 0) warn_of_unused(engine_);
    if (settings_.exact) statistics_.finish(shards_.occupied(batch));
    const bool overflows = scaler_ && half_overflows(batch);
    const bool taken = !overflows && nobody_objects(batch);
    if (taken && !fused_ && gradient_count() > 0) {
      optimizer_->step(lr, clip(engine_, {settings_.clip_norm, settings_.clip_value}, gradient_scale()));
    } else if (taken && !fused_) {
      optimizer_->skip_step();
    }
    const double scale_before = loss_scale();
    if (scaler_) scaler_->update(!overflows);
    if (!taken || loss_scale() != scale_before) engine_.forget();
    ++step_;
    result_.skipped += taken ? 0 : 1;
    if (settings_.local_steps > 0) {
      if (taken) local_.note_step(board_.own_count(), board_.count());
      if (step_ % settings_.local_steps == 0) average();
    }
    result_.loss = board_.loss() / board_.count();
    imbalance_sum_ += board_.imbalance();
    const double seconds = seconds_since(begin);
    steps_s_ += seconds;
    const StepReport report{
        .step = step_,
        .epoch = batch.epoch,
        .epochs = static_cast<double>(batch.epoch) +
                  static_cast<double>(batch.position + batch.global_count) / static_cast<double>(samples_),
        .samples = batch.global_count,
        .loss = result_.loss,
        .lr = lr,
        .skipped = !taken,
        .seconds = seconds,
        .imbalance = board_.imbalance(),
        .steps_s = steps_s_,
        .waited_for_ranks_s = waited_s_,
        .waited_for_data_s = loader_.waited_s()};
    for (const auto& observer : observers_) observer->on_step(report);
  }

  double waited_in_layers_s() const { return synced_norms_ ? synced_norms_->waited_s() : 0; }

  void average() {
    if (optimizer_) local_.take(engine_, *optimizer_, settings_.average_states);
  }

  /// Backward has divided by the number of samples already; what is counted may be tokens, or fewer.
  double gradient_scale() const { return static_cast<double>(samples_of_step_) / gradient_count() / loss_scale(); }
  /// What gradients are of: all ranks' samples, or with local steps this one's, which may have none.
  double gradient_count() const { return settings_.local_steps > 0 ? board_.own_count() : board_.count(); }
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }

  // Whether the optimiser may take the gradients all ranks find alike, as they look at the same sums.

  bool half_overflows(const data::Batch& batch) {
    // A loss that is no number would be so at any scale.
    if (!std::isfinite(board_.loss()) || all_finite(engine_, &parallel::Bucket::gradients)) return false;
    if (scaler_->exhausted()) {
      give_up(fmt::format("gradients are not finite at a loss scale as low as {}", scaler_->scale()), batch);
    }
    return true;
  }

  bool nobody_objects(const data::Batch& batch) {
    StepFindings findings{step_ + 1, board_.loss() / board_.count(), 0};
    const auto& callbacks = settings_.callbacks;
    if (std::any_of(callbacks.begin(), callbacks.end(), [](const auto& one) { return one->looks_at_gradients(); })) {
      findings.gradient_norm = gradient_scale() * gradient_norm(engine_);
    }
    for (const auto& callback : callbacks) {
      const auto [what, why] = callback->judge(findings);
      if (what == Verdict::Do::Fail) give_up(why, batch);
      if (what == Verdict::Do::Skip) {
        if (!why.empty()) skip_loudly(why, batch);
        statistics_.go_back();
        return false;
      }
    }
    if (!std::isfinite(findings.loss)) give_up("the loss is not finite", batch);
    return true;
  }

  [[noreturn]] void give_up(const std::string& why, const data::Batch& batch) {
    keep_what_is_saved();
    fail(Fault::Data, blame(why, batch) + "; lower optimizer.lr, set clip_norm or mend the data");
  }

  void skip_loudly(const std::string& why, const data::Batch& batch) {
    const std::string text = blame(why, batch);
    if (group_.rank() == 0) log().warn("a step is skipped: {}", text);
  }

  /// Before the weights are spoilt.
  std::string blame(const std::string& why, const data::Batch& batch) {
    const auto again = [&](int number) {
      double loss = 0;
      work_.pass(batch, {.shard = number, .step = step_, .loss_scale = loss_scale(), .reduce = false},
                 [&](const Score& score, bool) { loss += score.loss.item<double>(); });
      return loss;
    };
    return fmt::format("{} in step {} (epoch {}, samples {} to {} of its order); {}", why, step_ + 1, batch.epoch,
                       batch.position, batch.position + batch.global_count - 1,
                       examine({batch, shards_, settings_.exact, gradient_scale(), again}, engine_, group_));
  }

  void make_optimizer() {
    using Of = parallel::BucketOptimizer::Of;
    optimizer_.emplace(settings_.optimizer, engine_.parameters(), engine_.buckets(), settings_.groups, group_,
                       fused_ ? Of::OwnRank : Of::AllRanks);
    if (fused_) {
      engine_.update_with([this](std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients) {
        // The losses of all ranks are here already: they went ahead of the gradients.
        if (!std::isfinite(board_.loss())) return;
        optimizer_->step_part(bucket, first, count, gradients, gradient_scale());
      });
    }
    restore(*optimizer_, resumed_, group_);
    resumed_.tensors.clear();
  }

  Checkpoint snapshot() {
    const data::Position position = loader_.position();
    Checkpoint now{step_,
                   {{"step", step_},
                    {"epoch", position.epoch},
                    {"sample", position.sample},
                    {"ranks", group_.size()},
                    {"data", data_facts_}},
                   {}};
    note(now, task_.model(), *optimizer_, state_);
    note_result(now.facts, result_);
    return now;
  }

  void look_after_checkpoints(bool end_of_epoch) {
    if (saver_.under_way() && board_.all_written()) (void)saver_.finish();  // it has said if it failed
    result_.stopped = broken_off_ || (board_.stop() && !at_end());
    if (!saver_.wanted() || !(at_end() || saver_.wanted_after(step_, end_of_epoch))) return;
    if (!settings_.exact) statistics_.take_from_first_rank();
    average();
    if (settings_.local_steps > 0 && !settings_.average_states) optimizer_->average_states(1.0 / group_.size());
    if (!all_finite(engine_, &parallel::Bucket::weights)) {
      keep_what_is_saved();
      fail(Fault::Data,
           fmt::format("weights are not finite after step {}, so they are not saved; resume from the checkpoint before "
                       "with a lower optimizer.lr, clip_norm or callbacks.guard",
                       step_));
    }
    sum_up();
    saver_.begin(snapshot());
  }

  /// Before a run fails: its weights were sound when the checkpoint under way began.
  void keep_what_is_saved() {
    if (saver_.under_way()) (void)saver_.finish();
  }

  /// A run that ends without its last checkpoint has not done what it was asked for.
  void last_is_saved(bool saved) const {
    if (saved || !at_end()) return;
    fail(Fault::Io, fmt::format("the last checkpoint, of step {}, is not written; make room in {} and resume the run",
                                step_, settings_.checkpoints.folder));
  }

  bool asked_to_stop() const {
    return stop_.made() || (settings_.wall_time_s > 0 && seconds_since(begun_) > settings_.wall_time_s);
  }

  void backward(const data::Batch& batch) {
    board_.clear();
    board_.set_computed_s(computed_s_);
    if (asked_to_stop()) board_.ask_to_stop();
    if (saver_.written()) board_.say_written();
    engine_.drop_gradients();
    bool shared = !board_goes_first_;
    if (!settings_.callbacks.empty()) statistics_.remember();
    for (int shard = 0; shard < shards_.own.count; ++shard) {
      if (settings_.exact) {
        engine_.begin_shard(shard, shards_.own.count);
        statistics_.begin_shard(shard);
      }
      work_.pass(batch, {.shard = shard, .step = step_, .loss_scale = loss_scale()},
                 [&](const Score& score, bool last) {
                   board_.add(shard, score);
                   if (shared || !last || shard + 1 < shards_.own.count) return;
                   board_shared_ = board_.share();
                   shared = true;
                 });
      if (settings_.exact) {
        const auto [first, last] = shards_.range(batch, shard);
        statistics_.end_shard(shard, shards_.own.count, first != last);
      }
    }
    if (!shared) board_shared_ = board_.share();
  }

  void end_epoch() {
    if (!data_.validation || !evaluate(kValidation, data_.validation)) return;
    const auto& figures = result_.evaluations.back().figures;
    schedule_->observe(figures[0].second);
    saver_.best().judge(step_, figures);
  }

  /// False: the run is asked to stop, which it does before this is done.
  bool evaluate(const std::string& of, const data::DatasetPtr& set) {
    const profile::Span span("evaluate");
    const at::NoGradGuard no_gradients;
    if (!settings_.exact) statistics_.take_from_first_rank();
    for (const auto& callback : settings_.callbacks) callback->before_evaluation();
    task_.model().eval();
    const auto figures =
        figures_of(set,
                   {.batch = settings_.evaluation_batch,
                    .transforms = data_.evaluation_transforms,
                    .metrics = settings_.metrics,
                    .pinned = device_.is_cuda(),
                    .break_off = [this] { return asked_to_stop(); }},
                   shards_, group_, [this](const data::Batch& batch, std::int64_t first, std::int64_t last) {
                     return work_.score(batch, first, last);
                   });
    task_.model().train();
    for (const auto& callback : settings_.callbacks) callback->after_evaluation();
    broken_off_ = !figures;
    if (broken_off_) return false;
    const Evaluation evaluation{of, step_, epochs_done(), set->size(), *figures};
    for (const auto& observer : observers_) observer->on_evaluation(evaluation);
    result_.evaluations.push_back(evaluation);
    return true;
  }

  comm::Communicator& group_;
  const TrainerSettings& settings_;
  std::vector<std::shared_ptr<Observer>> observers_;  // callbacks first
  Task& task_;
  const TrainingData& data_;
  std::optional<OneThread> one_thread_;  // of exact mode
  Shards shards_;
  bool fused_;  // see TrainerSettings::fuse_step
  std::shared_ptr<const data::Order> order_;
  std::int64_t samples_;  // of an epoch
  c10::Device device_;
  nlohmann::json data_facts_;
  Resumed resumed_;
  RunLength length_;
  std::int64_t schedule_lead_;
  std::unique_ptr<Schedule> schedule_;
  parallel::DataParallel engine_;
  ShardWork work_;
  parallel::RunningStatistics statistics_;
  std::optional<parallel::SyncedBatchNorms> synced_norms_;
  StepBoard board_;
  bool board_goes_first_;  // ahead of the gradients; else behind them, as reading a loss waits for the GPU
  StopRequest stop_;
  CheckpointSaver saver_;
  data::Loader loader_;
  std::optional<LossScaler> scaler_;  // of fp16
  RunState state_;
  LocalAverage local_;
  std::optional<parallel::BucketOptimizer> optimizer_;  // made when the buckets have found their places
  comm::Work board_shared_;
  std::int64_t samples_of_step_ = 0;
  std::int64_t step_ = 0;
  std::int64_t first_step_ = 0;  // above 0 after a restart
  bool broken_off_ = false;      // an evaluation, as the run was asked to stop
  double steps_s_ = 0;           // of all steps and of waiting for their data, not of what is done between them
  double waited_s_ = 0;          // of that, for other ranks
  double computed_s_ = 0;        // in the last step
  double imbalance_sum_ = 0;     // over steps
  Clock::time_point begun_;
  RunResult before_;  // the run was resumed
  RunResult result_;
};

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
