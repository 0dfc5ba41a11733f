#include "lockstep/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/one_thread.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/broadcast.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/running_statistics.h"
#include "lockstep/parallel/waiting.h"
#include "lockstep/profile/span.h"
#include "lockstep/train/data_facts.h"
#include "lockstep/train/device.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/examination.h"
#include "lockstep/train/gradients.h"
#include "lockstep/train/local_average.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/model_parts.h"
#include "lockstep/train/result_so_far.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/run_length.h"
#include "lockstep/train/run_state.h"
#include "lockstep/train/shard_work.h"
#include "lockstep/train/shards.h"
#include "lockstep/train/step_board.h"
#include "lockstep/train/stop_request.h"
#include "lockstep/train/trained_model.h"
#include "lockstep/train/trainer_check.h"
#include "lockstep/train/weight_owner.h"

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

torch::nn::Module& prepared(torch::nn::Module& model, Precision precision, c10::Device device, bool shared_out) {
  convert_(model, precision);
  shared_out ? move_untrained_(model, device) : move_(model, device);
  parallel::name_layers(model);  // for models that nobody has made by name
  return model;
}

std::shared_ptr<parallel::Mesh> mesh_of_samples(comm::Communicator& group) {
  return std::make_shared<parallel::Mesh>(group, std::vector<parallel::MeshAxis>{{kDataAxis, group.size()}});
}

/// One run: what fit() has made of its arguments, and the loop.
class Run {
 public:
  Run(comm::Communicator& group, const TrainerSettings& settings,
      const std::vector<std::shared_ptr<Observer>>& observers, Task& task, const TrainingData& data)
      : mesh_(settings.mesh ? settings.mesh : mesh_of_samples(group)),
        world_(mesh_->world()),
        group_(mesh_->along(kDataAxis)),
        settings_(settings),
        observers_(settings.callbacks.begin(), settings.callbacks.end()),
        task_(task),
        data_(data),
        shards_(shards_of(group_, settings)),
        fused_(fuses(settings, task.model(), group_)),
        shared_out_(shares_out(settings, fused_, task.model())),
        order_(order_of(data, settings.seed)),
        samples_(order_->length()),
        device_(device_of(settings.device, world_)),
        data_facts_(data_facts(data, settings.seed)),
        resumed_(resume(settings.checkpoints, world_, group_,
                        prepared(task.model(), settings.precision, device_, shared_out_), data_facts_, shared_out_)),
        length_(length_of(settings, samples_, resumed_)),
        schedule_lead_(schedule_lead(settings, samples_, resumed_)),
        schedule_(schedule_of(settings, {length_.steps + schedule_lead_, length_.steps_of_epoch})),
        owner_(settings, *mesh_, task, fused_, device_),
        engine_(owner_.engine()),
        model_parts_(*mesh_, task, engine_, engine_.shared_out() ? owner_.replicas().size() : 1),
        memory_(settings.memory_before_bytes),
        work_(settings, *mesh_, shards_, device_, task, engine_, memory_),
        statistics_(parallel::buffers_of(task.model()), group_),
        board_(shards_, world_),
        board_goes_first_(fused_ || device_.is_cpu()),
        saver_(settings.checkpoints, world_, owner_.replicas()),
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
    check_schedule(*schedule_, data);
    if (settings.sync_batch_norm) sync_norms(task.model());
    if (model_parts_.cut()) check_cut(settings);
    if (mesh_->size(kTensorAxis) > 1) {
      check_split(settings);
      check_split(task.model());
    }
    owner_.load(resumed_);
    observers_.insert(observers_.end(), observers.begin(), observers.end());
  }

  ~Run() {
    if (fused_) owner_.replicated()->update_with({});
  }
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
    if (optimizer_) result_.memory = memory_.report(engine_, *optimizer_, task_.model(), world_);
    return std::move(result_);
  }

 private:
  /// Of a model in stages some may have no batch norm.
  void sync_norms(torch::nn::Module& model) {
    synced_norms_.emplace(model, group_);
    const auto norms = comm::gather_one_each(world_, synced_norms_->empty() ? 0 : 1, "batch norms");
    if (*std::max_element(norms.begin(), norms.end()) == 0)
      fail(Fault::Usage, "sync_batch_norm = true, but the model has no batch norm: leave it out");
  }

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
                 .parameters = model_parts_.parameters(),
                 .validates = data_.validation != nullptr,
                 .figures = figure_names(settings_.metrics),
                 .ranks = world_.size()};
    if (saver_.wanted() && data_.validation && settings_.checkpoints.keep_best > 0) {
      check_figure(settings_.checkpoints.best_by, info.figures, "checkpoints.best_by");
    }
    // The epoch under way may end sooner than a whole one; who resumes has seen this before.
    if (info.validates && !resumed_.any() && length_.steps < length_.steps_of_epoch && world_.rank() == 0) {
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
    if (!end_of_epoch && (!now || local_.due())) return;
    engine_.check_equal();
    model_parts_.check_equal();
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
    const auto measured = memory_.begin_step(step_ - first_step_);
    if (optimizer_ && fused_) optimizer_->begin_step(lr);
    backward(batch);
    memory_.after_backward();
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
    if (world_.size() > 1) waited_s_ += seconds_since(done) + waited_in_layers;
    const bool first_of_stage = mesh_->index(kDataAxis) == 0 && mesh_->index(kTensorAxis) == 0;
    if (first && first_of_stage) warn_of_unused(engine_);
    if (settings_.exact) statistics_.finish(shards_.occupied(batch));
    const bool overflows = scaler_ && half_overflows(batch);
    const bool taken = !overflows && nobody_objects(batch);
    if (taken && !fused_ && gradient_count() > 0) {
      optimizer_->step(lr, clip_(model_parts_, {settings_.clip_norm, settings_.clip_value}, gradient_scale()));
    } else if (taken && !fused_) {
      optimizer_->skip_step();
    }
    const double scale_before = loss_scale();
    if (scaler_) scaler_->update(!overflows);
    if (taken && !fused_) engine_.weights_changed();
    if (first) give_back_freed_memory();  // what making the model and its optimiser left
    if (owner_.replicated() != nullptr && (!taken || loss_scale() != scale_before)) owner_.replicated()->forget();
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

  double waited_in_layers_s() const {
    return parallel::waited_for_ranks_s() + (synced_norms_ ? synced_norms_->waited_s() : 0);
  }

  void average() {
    if (settings_.local_steps > 0 && optimizer_)
      local_.take(*owner_.replicated(), *optimizer_, settings_.average_states);
  }

  /// Backward has divided by the number of samples already; what is counted may be tokens, or fewer.
  double gradient_scale() const { return static_cast<double>(samples_of_step_) / gradient_count() / loss_scale(); }
  /// What gradients are of: all ranks' samples, or with local steps this one's, which may have none.
  double gradient_count() const { return settings_.local_steps > 0 ? board_.own_count() : board_.count(); }
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1; }

  // Whether the optimiser may take the gradients all ranks find alike, as they look at the same sums.

  bool half_overflows(const data::Batch& batch) {
    // A loss that is no number would be so at any scale.
    if (!std::isfinite(board_.loss()) || model_parts_.gradients_finite()) return false;
    if (scaler_->exhausted()) {
      give_up(fmt::format("gradients are not finite at a loss scale as low as {}", scaler_->scale()), batch);
    }
    return true;
  }

  bool nobody_objects(const data::Batch& batch) {
    StepFindings findings{step_ + 1, board_.loss() / board_.count(), 0};
    const auto& callbacks = settings_.callbacks;
    if (std::any_of(callbacks.begin(), callbacks.end(), [](const auto& one) { return one->looks_at_gradients(); })) {
      findings.gradient_norm = gradient_scale() * model_parts_.gradient_norm();
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
    if (world_.rank() == 0) log().warn("a step is skipped: {}", text);
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
                       examine({batch, shards_, settings_.exact, gradient_scale(), again}, engine_, world_));
  }

  void make_optimizer() {
    using Of = parallel::BucketOptimizer::Of;
    optimizer_.emplace(settings_.optimizer, engine_.parameters(), engine_.buckets(), settings_.groups, group_,
                       fused_ ? Of::OwnRank : Of::AllRanks, engine_.offload());
    if (fused_) {
      owner_.replicated()->update_with(
          [this](std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients) {
            // The losses of all ranks are here already: they went ahead of the gradients.
            if (!std::isfinite(board_.loss())) return;
            optimizer_->step_part(bucket, first, count, gradients, gradient_scale());
          });
    }
    restore(*optimizer_, resumed_, group_);
    resumed_.tensors = {};
  }

  Checkpoint snapshot() {
    const data::Position position = loader_.position();
    Checkpoint now{step_,
                   {{"step", step_},
                    {"epoch", position.epoch},
                    {"sample", position.sample},
                    {"ranks", world_.size()},
                    {"data", data_facts_}},
                   {}};
    if (settings_.layout) now.facts["layout"] = noted(*settings_.layout);
    owner_.note(now);
    note(now, *optimizer_, state_);
    note_result(now.facts, result_);
    if (settings_.model_data) note_model_data(now.facts, *settings_.model_data);
    std::erase_if(now.tensors, [this](const auto& tensor) { return model_parts_.counts_elsewhere(tensor.name); });
    return now;
  }

  void look_after_checkpoints(bool end_of_epoch) {
    if (saver_.under_way() && board_.all_written()) (void)saver_.finish();  // it has said if it failed
    result_.stopped = broken_off_ || (board_.stop() && !at_end());
    if (!saver_.wanted() || !(at_end() || saver_.wanted_after(step_, end_of_epoch))) return;
    if (!settings_.exact) statistics_.take_from_first_rank();
    average();
    if (settings_.local_steps > 0 && !settings_.average_states) optimizer_->average_states(1.0 / group_.size());
    if (!model_parts_.weights_finite()) {
      keep_what_is_saved();
      fail(Fault::Data,
           fmt::format("weights are not finite after step {}, so they are not saved; resume from the checkpoint before "
                       "with a lower optimizer.lr, clip_norm or callbacks.guard",
                       step_));
    }
    sum_up();
    saver_.begin(snapshot());
    memory_.note_staged(saver_.staged_bytes());
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
        owner_.replicated()->begin_shard(shard, shards_.own.count);
        statistics_.begin_shard(shard);
      }
      work_.pass(batch, {.shard = shard, .step = step_, .loss_scale = loss_scale()},
                 [&](const Score& score, bool last) {
                   if (work_.counts()) board_.add(shard, score);
                   if (shared || !last || shard + 1 < shards_.own.count) return;
                   board_shared_ = board_.share();
                   shared = true;
                 });
      if (settings_.exact) {
        const auto [first, last] = shards_.range(batch, shard);
        statistics_.end_shard(shard, shards_.own.count, first != last);
      }
    }
    model_parts_.complete_gradients();
    if (!shared) board_shared_ = board_.share();
  }

  void end_epoch() {
    if (!data_.validation || !evaluate(kValidation, data_.validation)) return;
    const auto& figures = result_.evaluations.back().figures;
    schedule_->observe(figures[0].second);
    saver_.best().judge(step_, figures);
  }

  /// A rank has no more samples at once than in a step, so that no more memory is taken than was foretold. It does not
  /// depend on the number of ranks, on which exact figures must not.
  std::int64_t evaluation_batch() const {
    const std::int64_t at_once = std::max<std::int64_t>(1, settings_.batch / settings_.accumulate);
    return std::min(settings_.evaluation_batch, at_once);
  }

  /// False: the run is asked to stop, which it does before this is done.
  bool evaluate(const std::string& of, const data::DatasetPtr& set) {
    const profile::Span span("evaluate");
    const at::NoGradGuard no_gradients;
    if (!settings_.exact) statistics_.take_from_first_rank();
    for (const auto& callback : settings_.callbacks) callback->before_evaluation();
    task_.model().eval();
    const bool with_outputs = std::any_of(settings_.metrics.begin(), settings_.metrics.end(),
                                          [](const auto& metric) { return metric->needs_outputs(); });
    const auto figures =
        figures_of(set,
                   {.batch = evaluation_batch(),
                    .transforms = data_.evaluation_transforms,
                    .metrics = settings_.metrics,
                    .pinned = device_.is_cuda(),
                    .break_off = [this] { return asked_to_stop(); }},
                   shards_, world_, [&](const data::Batch& batch, std::int64_t first, std::int64_t last) {
                     auto score = work_.score(batch, first, last, with_outputs);
                     return work_.counts() ? score : std::nullopt;
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

  std::shared_ptr<parallel::Mesh> mesh_;
  comm::Communicator& world_;
  comm::Communicator& group_;  // of the data axis
  const TrainerSettings& settings_;
  std::vector<std::shared_ptr<Observer>> observers_;  // callbacks first
  Task& task_;
  const TrainingData& data_;
  std::optional<OneThread> one_thread_;  // of exact mode
  Shards shards_;
  bool fused_;  // see TrainerSettings::fuse_step
  bool shared_out_;
  std::shared_ptr<const data::Order> order_;
  std::int64_t samples_;  // of an epoch
  c10::Device device_;
  nlohmann::json data_facts_;
  Resumed resumed_;
  RunLength length_;
  std::int64_t schedule_lead_;
  std::unique_ptr<Schedule> schedule_;
  WeightOwner owner_;
  parallel::GradientEngine& engine_;
  ModelParts model_parts_;
  MemoryMeter memory_;
  ShardWork work_;
  parallel::RunningStatistics statistics_;
  std::optional<parallel::SyncedBatchNorms> synced_norms_;  // of a stage perhaps none
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
  keep_freed_memory();
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
