#include "lockstep/train/shard_work.h"

#include <algorithm>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/random_key.h"
#include "lockstep/train/device.h"
#include "lockstep/train/forward_scope.h"
#include "lockstep/train/mesh_recipe.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

/// What torch says of numbers that it cannot take names no sample: then the task looks for them, where it has not
/// looked before.
template <class Work>
auto checked(const Task& task, const data::Batch& piece, const Work& work) {
  try {
    return work();
  } catch (const c10::Error&) {
    const bool readable = std::all_of(piece.tensors.begin(), piece.tensors.end(),
                                      [](const at::Tensor& tensor) { return !tensor.defined() || tensor.is_cpu(); });
    if (readable) task.check(piece);
    throw;
  }
}

}  // namespace

/// The pieces of a batch as micro-batches.
class ShardWork::Feed final : public parallel::PipelineFeed {
 public:
  Feed(ShardWork& work, const data::Batch& batch, const Pass& pass, const Note& note, std::int64_t pieces)
      : work_(work), batch_(batch), pass_(pass), note_(note) {
    for (std::int64_t number = 0; number < pieces; ++number) {
      ranges_.push_back(work.piece(batch, pass, number, pieces));
      passed_over_.push_back(work.passes_over(batch, pass, number, pieces));
      if (!passed_over_.back()) last_ = static_cast<int>(number);
    }
  }
  bool empty(int micro_batch) const override { return passed_over_[static_cast<std::size_t>(micro_batch)]; }
  void begin(int micro_batch) override { work_.begin(batch_, pass_, range(micro_batch)); }
  at::Tensor input(int micro_batch) override {
    return work_.chain_task_->input(work_.prepared(batch_, range(micro_batch)));
  }
  at::Tensor slopes(int micro_batch, const at::Tensor& outputs) override {
    const data::Batch piece = work_.prepared(batch_, range(micro_batch));
    const at::Tensor leaf = outputs.detach().requires_grad_();
    const Score score = [&] {
      const Autocast autocast(work_.settings_.precision, work_.device_.type());
      return work_.chain_task_->score_of(leaf, piece);
    }();
    note_(score, micro_batch == last_);
    work_.divided(score.loss, batch_, pass_).backward();
    return leaf.grad();
  }
  void expect_gradients(bool last) override { work_.engine_.reduce_in_backward(pass_.reduce && last); }

 private:
  const Range& range(int micro_batch) const { return ranges_[static_cast<std::size_t>(micro_batch)]; }

  ShardWork& work_;
  const data::Batch& batch_;
  const Pass& pass_;
  const Note& note_;
  std::vector<Range> ranges_;
  std::vector<bool> passed_over_;
  int last_ = 0;
};

ShardWork::ShardWork(const TrainerSettings& settings, parallel::Mesh& mesh, const Shards& shards, c10::Device device,
                     Task& task, parallel::GradientEngine& engine, MemoryMeter& memory)
    : settings_(settings),
      shards_(shards),
      device_(device),
      task_(task),
      chain_task_(dynamic_cast<ChainTask*>(&task)),
      engine_(engine),
      memory_(memory),
      counts_(mesh.index(kTensorAxis) == 0 && mesh.index(kPipeAxis) == mesh.size(kPipeAxis) - 1),
      checks_first_(!device.is_cpu() || mesh.size(kTensorAxis) > 1 || mesh.size(kPipeAxis) > 1) {
  if (settings.recompute_inputs && chain_task_ == nullptr)
    fail(Fault::Usage, "recompute = \"selective\" is of the links of a model: make the task a ChainTask");
  if (chain_task_ != nullptr && settings.recompute_every > 0)
    check_recomputed(task.model(), chain_task_->chain(), pass_options().recomputes);
  if (mesh.size(kPipeAxis) == 1) return;
  if (chain_task_ == nullptr)
    fail(Fault::Usage,
         "a pipeline cuts a model between its links: make the task a ChainTask, or set parallel.pipe = 1");
  pipeline_.emplace(chain_task_->chain(), chain_task_->cuts(), mesh.along(kPipeAxis), pass_options(), device_);
}

parallel::ChainPass::Options ShardWork::pass_options() const {
  parallel::ChainPass::Options options;
  options.observer = engine_.observer();
  if (settings_.recompute_every > 0) {
    options.recomputes = [every = static_cast<std::size_t>(settings_.recompute_every)](std::size_t link) {
      return link % every == 0;
    };
  }
  if (settings_.precision == Precision::Bf16 || settings_.precision == Precision::Fp16 || settings_.recompute_inputs) {
    options.scope = [this] {
      return std::make_shared<ForwardScope>(settings_.precision, device_.type(), settings_.recompute_inputs);
    };
  }
  return options;
}

const parallel::PipelineSchedule& ShardWork::schedule(int micro_batches) {
  if (!schedule_ || schedule_->micro_batches != micro_batches) {
    const int chunks = settings_.pipeline_chunks;
    const int stages = static_cast<int>(chain_task_->cuts().size() - 1) / chunks;
    schedule_ = parallel::make_pipeline_schedule(settings_.pipeline_schedule, stages, micro_batches, chunks);
  }
  return *schedule_;
}

ShardWork::Range ShardWork::piece(const data::Batch& batch, const Pass& pass, std::int64_t number,
                                  std::int64_t pieces) const {
  const auto [first, last] = shards_.range(batch, pass.shard);
  return {first + (last - first) * number / pieces, first + (last - first) * (number + 1) / pieces};
}

/// Nothing is computed of it. Where layers meet those of other ranks, even a rank without samples must come, if any
/// other has some.
bool ShardWork::passes_over(const data::Batch& batch, const Pass& pass, std::int64_t number,
                            std::int64_t pieces) const {
  if (!piece(batch, pass, number, pieces).empty()) return false;
  if (!settings_.sync_batch_norm) return true;
  for (int shard = 0; shard < shards_.total; ++shard) {
    const data::Share share{shard, shard + 1, shards_.total};
    const std::int64_t samples = share.last(batch.global_count) - share.first(batch.global_count);
    if (samples * number / pieces != samples * (number + 1) / pieces) return false;
  }
  return true;
}

void ShardWork::begin(const data::Batch& batch, const Pass& pass, const Range& range) const {
  parallel::random_key() = {settings_.seed, pass.step, batch.first + range.first};
}

at::Tensor ShardWork::divided(const at::Tensor& loss, const data::Batch& batch, const Pass& pass) const {
  return loss / (static_cast<double>(batch.global_count) / pass.loss_scale);
}

void ShardWork::pass(const data::Batch& batch, const Pass& pass, const Note& note) {
  if (pipeline_) {
    Feed feed(*this, batch, pass, note, settings_.accumulate);
    memory_.note_messages(pipeline_->train(schedule(static_cast<int>(settings_.accumulate)), feed));
    return;
  }
  // Of the short batch at the end of an epoch no piece is without samples on all ranks.
  const std::int64_t most = (batch.global_count + shards_.total - 1) / shards_.total;
  const std::int64_t pieces = std::min(settings_.accumulate, most);
  for (std::int64_t number = 0; number < pieces; ++number) {
    const Range range = piece(batch, pass, number, pieces);
    const bool last = number + 1 == pieces;
    engine_.reduce_in_backward(pass.reduce && last);
    if (passes_over(batch, pass, number, pieces)) {
      if (engine_.observer() == nullptr) continue;
      pass_of_all().pass_over_forward();
      pass_of_all().pass_over_backward();
      continue;
    }
    begin(batch, pass, range);
    const data::Batch samples = prepared(batch, range);
    if (chain_task_ != nullptr) {
      through_chain(samples, batch, pass, last, note);
      continue;
    }
    const Score found = checked(task_, samples, [&] {
      const Autocast autocast(settings_.precision, device_.type());
      return task_.score(samples);
    });
    note(found, last);
    divided(found.loss, batch, pass).backward();
  }
}

parallel::ChainPass ShardWork::pass_of_all() const {
  return {chain_task_->chain(), 0, chain_task_->chain().size(), pass_options()};
}

void ShardWork::through_chain(const data::Batch& piece, const data::Batch& batch, const Pass& pass, bool last,
                              const Note& note) {
  parallel::ChainPass links = pass_of_all();
  // Scores of many words are large: they are gone when the links before them go back.
  at::Tensor slopes = [&] {
    at::Tensor leaf;
    const Score found = checked(task_, piece, [&] {
      leaf = links.forward(chain_task_->input(piece)).requires_grad_();
      const Autocast autocast(settings_.precision, device_.type());
      return chain_task_->score_of(leaf, piece);
    });
    note(found, last);
    divided(found.loss, batch, pass).backward();
    return leaf.grad();
  }();
  (void)links.backward(std::move(slopes));
}

std::optional<Score> ShardWork::score(const data::Batch& batch, std::int64_t first, std::int64_t last,
                                      bool with_outputs) {
  if (first == last) {
    if (engine_.observer() == nullptr) return std::nullopt;
    pipeline_ ? pipeline_->pass_over_forward() : pass_of_all().pass_over_forward();
    return std::nullopt;
  }
  const data::Batch piece = prepared(batch, {first, last});
  return checked(task_, piece, [&]() -> std::optional<Score> {
    if (chain_task_ == nullptr) {
      const Autocast autocast(settings_.precision, device_.type());
      return task_.score(piece);
    }
    const at::Tensor outputs = [&] {
      const auto& chain = chain_task_->chain();
      // Of each link alone, as in training: what autocast keeps of all weights would be a model of its own.
      const auto options = pass_options();
      if (!pipeline_)
        return parallel::run(chain, 0, chain.size(), chain_task_->input(piece), options.observer, options.scope);
      return pipeline_->forward([&] { return chain_task_->input(piece); }).value_or(at::Tensor());
    }();
    if (!outputs.defined()) return std::nullopt;
    const Autocast autocast(settings_.precision, device_.type());
    Score score = chain_task_->score_of(outputs, piece);
    score.outputs = with_outputs ? parallel::gather_scores(score.outputs, chain_task_->class_split()) : at::Tensor();
    return score;
  });
}

data::Batch ShardWork::prepared(const data::Batch& batch, const Range& range) const {
  data::Batch piece = cut(batch, range);
  convert_(piece, settings_.precision);
  if (checks_first_) task_.check(piece);
  move_(piece, device_);
  return piece;
}

data::Batch ShardWork::cut(const data::Batch& batch, const Range& range) const {
  data::Batch piece = part_of(batch, range.first, range.last - range.first);
  if (!settings_.exact) return piece;
  for (std::size_t place = 0; place < piece.tensors.size(); ++place) {
    at::Tensor& tensor = piece.tensors[place];
    // What it is padded to depends on the other shards of the rank.
    const at::Tensor& lengths = piece.lengths[place];
    if (lengths.defined() && lengths.numel() > 0) tensor = tensor.narrow(1, 0, lengths.max().item<std::int64_t>());
    // Kernels may round by where their operands lie, and where a shard lies in the batch depends on the rank.
    tensor = tensor.clone();
  }
  return piece;
}

}  // namespace lockstep::train
