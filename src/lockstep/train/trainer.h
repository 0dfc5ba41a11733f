// lockstep/train/trainer.h
//
// A Trainer takes a Task through epochs of data on all ranks of a group: steps, validation,
// and what observers want to know.
//
//   Trainer trainer(runtime.world(), {.epochs = 3, .batch = 128, .optimizer = …, .lr = 0.01});
//   trainer.fit(task, {.train = data::open("mnist")});
//
// In exact mode a batch is cut into virtual shards, each of which is worked through on its
// own and combined in the fixed tree: weights are the same bits on any number of ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/order.h"
#include "lockstep/parallel/bucket_optimizer.h"
#include "lockstep/parallel/mesh.h"
#include "lockstep/parallel/wire.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/checkpoint_saver.h"
#include "lockstep/train/layout.h"
#include "lockstep/train/loss_scaler.h"
#include "lockstep/train/memory_meter.h"
#include "lockstep/train/metric.h"
#include "lockstep/train/observer.h"
#include "lockstep/train/precision.h"
#include "lockstep/train/schedule.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

struct TrainerSettings {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;       // above 0: end after so many, whatever epochs says
  std::int64_t batch = 64;      // samples of a step, of all ranks together
  std::int64_t accumulate = 1;  // pieces of a rank's part that pass the model one after another
  std::int64_t evaluation_batch = 1000;
  // Above 0: ranks step on their own, and their weights become one after so many steps, and before anybody looks at
  // them; so do what the optimiser remembers, or only where it is saved.
  std::int64_t local_steps = 0;
  bool average_states = true;
  bool sync_batch_norm = false;  // batch norms take their statistics over all ranks
  std::uint64_t seed = 0;
  bool exact = false;
  std::shared_ptr<parallel::Mesh> mesh = nullptr;  // of the trainer's ranks; none: all are on the data axis
  // Of a mesh with stages: how micro-batches, of which `accumulate` says how many there are, pass them, and how many
  // pieces of the model a rank has.
  std::string pipeline_schedule = "1f1b";
  int pipeline_chunks = 1;
  // What ranks of the data axis share out instead of each having all: 1 what the optimiser remembers, 2 gradients too,
  // 3 weights, too. `zero_ranks` have one copy together, 0: all; `unit_bytes` of weights at least travel together.
  int zero = 0;
  int zero_ranks = 0;
  std::int64_t unit_bytes = std::int64_t{1} << 20;
  // What of that lies in a file without a name in `offload_folder`, see OffloadFile: "none", "optimizer" or, with
  // zero = 3, "all", which is weights, too.
  std::string offload = kOffloadNothing;
  std::string offload_folder = {};
  int shards = 16;             // of exact mode, a power of two and at least as many as ranks
  std::string device = "cpu";  // see device.h
  Precision precision = Precision::Float32;
  LossScaleSettings loss_scale = {};  // of fp16
  double lr = 0.01;
  /// The owner of weights sums their gradients, steps the optimiser and stores the new weights on every rank in one
  /// sweep, with the same bits; not set: where it can be, which is without clipping and with more than one rank.
  std::optional<bool> fuse_step = std::nullopt;
  double clip_norm = 0;   // above 0: gradients of a larger norm are scaled down to it
  double clip_value = 0;  // above 0: no element of a gradient is larger
  std::shared_ptr<const parallel::Optimizer> optimizer;
  std::vector<parallel::ParameterGroup> groups = {{}};
  std::function<std::unique_ptr<Schedule>(const RunLength&)> schedule = {};  // none: constant
  std::function<std::unique_ptr<parallel::Wire>()> wire = {};                // none: gradients travel as they are
  std::vector<std::shared_ptr<const Metric>> metrics = {};
  std::vector<std::shared_ptr<Callback>> callbacks = {};  // of one run
  CheckpointSettings checkpoints = {};
  std::optional<models::ModelData> model_data =
      {};  // kept in checkpoints, so that the model is made again without data
  std::int64_t check_every_steps =
      1000;                              // whether all ranks have the same weights, and after every epoch; 0: only then
  std::optional<Layout> layout = {};     // kept in checkpoints, too, so that a run that goes on need not choose anew
  double wall_time_s = 0;                // above 0: save and stop when so much has passed
  std::int64_t memory_before_bytes = 0;  // see MemoryMeter
  // Of so many links that a chain passes one after another one keeps only its input, and is computed again in
  // backward; 1: each, 0: none.
  std::int64_t recompute_every = 0;
  // Inputs of layers that are cheap to make again, such as norms' outputs, are not kept for backward: same bits.
  bool recompute_inputs = false;
};

struct TrainingData {
  data::DatasetPtr train;
  data::DatasetPtr validation = nullptr;  // after every epoch
  data::DatasetPtr test = nullptr;        // once, at the end
  std::string order = "shuffle";
  std::vector<data::SampleGroup> groups = {};           // of order "balanced": its classes; of "mix": what is mixed
  std::vector<std::string> transforms = {};             // of train
  std::vector<std::string> evaluation_transforms = {};  // of the others
};

/// Of the whole run, also of what was done before it was resumed; times are of this rank.
struct RunResult {
  std::int64_t steps = 0;
  std::int64_t skipped = 0;  // of them, by which the weights did not change
  double loss = 0;           // of the last step
  /// It was asked to stop before its end. What it has done is saved, to be resumed, if it had a folder for checkpoints;
  /// else it is lost.
  bool stopped = false;
  double imbalance = 1;     // mean over the steps, see StepReport
  double seconds = 0;       // of steps
  double waited_share = 0;  // of this time, for other ranks
  std::string ended_early;  // why a callback ended it; "": none did
  std::vector<Evaluation> evaluations;
  MemoryReport memory;  // of what this process has done
};

class Trainer {
 public:
  Trainer(comm::Communicator& group, TrainerSettings settings);
  void add(std::shared_ptr<Observer> observer);
  /// A collective of the group.
  RunResult fit(Task& task, const TrainingData& data);

 private:
  comm::Communicator& group_;
  TrainerSettings settings_;
  std::vector<std::shared_ptr<Observer>> observers_;
};

/// 32 hexadecimal digits of all parameters and buffers, names included.
std::string hash_of(const torch::nn::Module& model);

}  // namespace lockstep::train
