#include "lockstep/train/trainer.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/data/open.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/recipe.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using comm::Communicator;
using comm::testing::on_ranks;

constexpr const char kBlobs[] = R"(
steps = 12
batch = 20
exact = true
shards = 8
[data]
train = "blobs:samples=130,dims=6,classes=3"
test = "blobs:samples=50,dims=6,classes=3"
[model]
name = "mlp"
hidden = [8, 8]
dropout = 0.2
[optimizer]
name = "adam"
lr = 0.01
[schedule]
name = "cosine"
)";

struct Outcome {
  RunResult result;
  std::string hash;
};

/// The recipe with settings laid over it, on so many ranks; what rank 0 has at the end.
Outcome train(int ranks, const std::vector<std::string>& settings, const CheckpointSettings& checkpoints = {},
              const std::string& recipe_text = kBlobs, const std::shared_ptr<Observer>& observer = nullptr,
              const std::function<void(const std::string&)>& every_hash = {}) {
  static std::mutex mutex;  // ranks are threads, and share torch's generator
  Outcome outcome;
  on_ranks({ranks}, [&](Communicator& group) {
    Config recipe = Config::from_text(recipe_text);
    for (const auto& setting : settings) recipe.set(setting);
    std::unique_lock lock(mutex);
    auto run = make_run(recipe, group);
    lock.unlock();
    run.settings.checkpoints = checkpoints;
    Trainer trainer(group, run.settings);
    if (observer && group.rank() == 0) trainer.add(observer);
    auto result = trainer.fit(*run.task, run.data);
    lock.lock();
    if (every_hash) every_hash(hash_of(run.task->model()));
    if (group.rank() == 0) outcome = {std::move(result), hash_of(run.task->model())};
  });
  return outcome;
}

/// Of all ranks at the end.
std::set<std::string> hashes(int ranks, const std::vector<std::string>& settings) {
  std::set<std::string> result;
  train(ranks, settings, {}, kBlobs, nullptr, [&result](const std::string& hash) { result.insert(hash); });
  return result;
}

TEST(Training, LearnsBlobs) {
  const auto outcome = train(2, {"steps=150", "exact=false", "model.dropout=0"});
  ASSERT_EQ(outcome.result.evaluations.size(), 1U);
  const auto& figures = outcome.result.evaluations[0].figures;
  EXPECT_EQ(outcome.result.steps, 150);
  EXPECT_EQ(figures[1].first, "accuracy");
  EXPECT_GT(figures[1].second, 0.9);
}

/// Of a run that ended in an error of usage.
std::string refusal(int ranks, const std::vector<std::string>& settings, const std::string& recipe = kBlobs) {
  try {
    train(ranks, settings, {}, recipe);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage) << error.message();
    return error.message();
  }
  return "";
}

TEST(Training, LearnsBlobsOverEveryWire) {
  for (const std::string name : {"bf16", "fp16", "int8", "topk"}) {
    std::vector<std::string> settings = {"steps=150", "exact=false", "model.dropout=0", "wire.name=" + name};
    if (name == "topk") settings.emplace_back("wire.ratio=0.1");
    const auto outcome = train(3, settings);
    EXPECT_GT(outcome.result.evaluations[0].figures[1].second, 0.9) << name;
    EXPECT_NE(refusal(2, {"wire.name=" + name}).find("set exact = false"), std::string::npos) << name;
  }
}

constexpr const char kTokens[] = R"(
steps = 12
batch = 7
[data]
train = "tokens:samples=40,length=9,vocabulary=60"
[task]
name = "next_token"
vocabulary = 60
[model]
width = 8
layers = 1
[optimizer]
name = "sgd"
lr = 0.5
)";

class SparseEmbedding : public testing::TestWithParam<std::vector<std::string>> {
 protected:
  static std::vector<std::string> settings(bool sparse, const std::vector<std::string>& more = {}) {
    std::vector<std::string> result = GetParam();
    result.emplace_back(sparse ? "model.sparse_embedding=true" : "model.sparse_embedding=false");
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, SparseEmbedding,
                         testing::Values(std::vector<std::string>{"model.name=lstm", "model.hidden=8"},
                                         std::vector<std::string>{"model.name=gpt", "model.heads=2",
                                                                  "model.tied=false"}));

TEST_P(SparseEmbedding, TrainsAsADenseOne) {
  for (const int ranks : {1, 3, 8}) {  // of eight, one has no samples
    for (const char* more : {"clip_norm=0.05", "clip_value=0.001", "local_steps=3"}) {
      EXPECT_NEAR(train(ranks, settings(true, {more}), {}, kTokens).result.loss,
                  train(ranks, settings(false, {more}), {}, kTokens).result.loss, 1e-5)
          << ranks << ' ' << more;
    }
  }
}

TEST_P(SparseEmbedding, IsRefusedByExactModeAndByMomentum) {
  EXPECT_NE(refusal(2, settings(true, {"exact=true"}), kTokens).find("set exact = false"), std::string::npos);
  EXPECT_NE(refusal(2, settings(true, {"optimizer.momentum=0.9"}), kTokens).find("without momentum"),
            std::string::npos);
}

struct NormedNet : torch::nn::Module {
  NormedNet()
      : first(register_module("first", parallel::Linear(6, 8))),
        norm(register_module("norm", parallel::BatchNorm(8))),
        last(register_module("last", parallel::Linear(8, 3))) {
    to(at::kDouble);
  }
  parallel::Linear first;
  parallel::BatchNorm norm;
  parallel::Linear last;
};

/// Blobs in float64, with a batch norm.
class NormedTask final : public Task {
 public:
  torch::nn::Module& model() override { return net_; }
  Score score(const data::Batch& batch) override {
    const at::Tensor targets = batch["label"].flatten().to(at::kLong);
    const at::Tensor outputs = net_.last(at::relu(net_.norm(net_.first(batch.tensors[0].flatten(1).to(at::kDouble)))));
    return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum), targets.numel(), outputs.detach(),
            targets};
  }

 private:
  NormedNet net_;
};

TEST(SyncBatchNorm, TrainsAsOneProcessDoes) {
  for (const std::int64_t batch : {20, 2}) {  // of two, some ranks have none
    std::vector<double> losses;
    for (const int ranks : {1, 3, 5}) {
      static std::mutex mutex;
      on_ranks({ranks}, [&](Communicator& group) {
        std::unique_lock lock(mutex);
        at::manual_seed(5);
        NormedTask task;
        lock.unlock();
        TrainerSettings settings;
        settings.steps = 12;
        settings.batch = batch;
        settings.lr = 0.1;
        settings.sync_batch_norm = true;
        settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
        const auto result =
            Trainer(group, settings).fit(task, {.train = data::open("blobs:samples=130,dims=6,classes=3")});
        if (group.rank() == 0) losses.push_back(result.loss);
      });
    }
    for (const double loss : losses) EXPECT_NEAR(loss, losses[0], 1e-11 * std::abs(losses[0])) << batch;
  }
}

TEST(SyncBatchNorm, IsRefusedWhereRanksDoNotMeet) {
  EXPECT_NE(refusal(2, {"sync_batch_norm=true"}).find("per shard"), std::string::npos);
  EXPECT_NE(refusal(2, {"sync_batch_norm=true", "exact=false", "local_steps=2"}).find("go on their own"),
            std::string::npos);
  EXPECT_NE(refusal(2, {"sync_batch_norm=true", "exact=false"}).find("has no batch norm"), std::string::npos);
}

TEST(LocalSteps, OfOneAreThoseOfAllRanks) {
  // 130 samples in batches of 20 on 3 ranks: parts are uneven, and the last batch has fewer still.
  const std::vector<std::string> plain = {"steps=20", "exact=false", "optimizer.name=sgd", "optimizer.lr=0.1"};
  for (const std::string momentum : {"0", "0.9"}) {
    auto wanted = plain;
    wanted.push_back("optimizer.momentum=" + momentum);
    auto local = wanted;
    local.emplace_back("local_steps=1");
    EXPECT_NEAR(train(3, local).result.loss, train(3, wanted).result.loss, 1e-5) << momentum;
    local.emplace_back("batch=2");  // one rank has no samples
    wanted.emplace_back("batch=2");
    EXPECT_NEAR(train(3, local).result.loss, train(3, wanted).result.loss, 1e-5) << momentum;
  }
}

TEST(LocalSteps, BringRanksTogetherBeforeAnybodyLooks) {
  // Not a multiple of anything: 17 steps, 7 of an epoch. After every epoch the weights of all ranks are compared.
  const std::vector<std::string> settings = {"steps=17", "exact=false", "local_steps=4", "model.dropout=0"};
  for (const std::string states : {"true", "false"}) {
    auto now = settings;
    now.push_back("average_states=" + states);
    EXPECT_EQ(hashes(3, now).size(), 1U);
  }
  const auto learned = train(3, {"steps=150", "exact=false", "local_steps=8", "model.dropout=0"});
  EXPECT_GT(learned.result.evaluations[0].figures[1].second, 0.9);
  const auto alone = train(1, settings);
  EXPECT_EQ(alone.hash, train(1, {"steps=17", "exact=false", "model.dropout=0"}).hash);
}

TEST(LocalSteps, AreRefusedWhereNoGradientsTravel) {
  EXPECT_NE(refusal(2, {"local_steps=4"}).find("nothing to sum exactly"), std::string::npos);
  EXPECT_NE(refusal(2, {"local_steps=4", "exact=false", "wire.name=bf16"}).find("nothing to encode"),
            std::string::npos);
  EXPECT_NE(refusal(2, {"local_steps=-1", "exact=false"}).find("from 0 on"), std::string::npos);
}

class ExactMode : public testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Recipes, ExactMode,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"accumulate=2", "clip_norm=0.1"},
                                         std::vector<std::string>{"optimizer.name=lamb", "clip_value=0.01"},
                                         std::vector<std::string>{"batch=7"}));

TEST_P(ExactMode, GivesTheSameBitsOnAnyNumberOfRanks) {
  const auto alone = train(1, GetParam());
  for (const int ranks : {2, 3, 4, 8}) {
    const auto outcome = train(ranks, GetParam());
    EXPECT_EQ(outcome.hash, alone.hash) << ranks;
    EXPECT_EQ(outcome.result.loss, alone.result.loss) << ranks;
    EXPECT_EQ(outcome.result.evaluations[0].figures, alone.result.evaluations[0].figures) << ranks;
  }
  EXPECT_NE(train(1, {"seed=1"}).hash, alone.hash);
}

TEST(ExactMode, NeedsAsManyShardsAsRanks) {
  EXPECT_THROW(train(3, {"shards=2"}), Error);
  EXPECT_THROW(train(2, {"shards=6"}), Error);
}

TEST(Recipe, NamesAKeyThatIsNone) {
  const auto message = [](const std::string& setting) -> std::string {
    try {
      train(1, {setting});
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage) << setting;
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message("optimizer.lrr=1").find("did you mean 'optimizer.lr'"), std::string::npos)
      << message("optimizer.lrr=1");
  EXPECT_NE(message("schedule.name=cosin").find("did you mean 'cosine'"), std::string::npos);
  EXPECT_NE(message("model.name=nlp").find("did you mean 'mlp'"), std::string::npos);
  EXPECT_NE(message("scale_lr=cubic").find("\"none\", \"linear\" or \"sqrt\""), std::string::npos);
  EXPECT_NE(message("batch_per_rank=4").find("set one"), std::string::npos);
  EXPECT_NE(message("batch=0").find("batch 0"), std::string::npos);
  EXPECT_NE(message("data.train=''").find("names no data"), std::string::npos);
}

TEST(Training, SaysWhereALossIsNotFinite) {
  try {
    train(2, {"optimizer.name=sgd", "optimizer.lr=1e30", "exact=false"});
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.message()).find("is not finite in step"), std::string::npos) << error.message();
  }
}

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() : folder_((fs::path(testing::TempDir()) / ("trainer_test_" + std::to_string(getpid()))).string()) {}
  ~Checkpoints() override { fs::remove_all(folder_); }
  CheckpointSettings settings(bool resume, std::int64_t every = 4) const {
    return {.folder = folder_, .every_steps = every, .resume = resume};
  }

  std::string folder_;
};

TEST_F(Checkpoints, LetARunGoOnWithOtherRanks) {
  const auto whole = train(2, {});
  // Step 9 lies in mid epoch (7 steps of 20 from 130 samples); the schedule must know of all 12.
  for (const auto& [before, after] : {std::pair(1, 3), std::pair(4, 1), std::pair(3, 8)}) {
    fs::remove_all(folder_);
    train(before, {}, settings(false, 9));
    // As if it had been killed after step 9.
    fs::remove_all(folder_ + "/0000000012");
    const auto resumed = train(after, {}, settings(true));
    EXPECT_EQ(resumed.hash, whole.hash) << before << " then " << after;
    EXPECT_EQ(resumed.result.loss, whole.result.loss);
  }
}

TEST_F(Checkpoints, LetLocalStepsGoOn) {
  for (const std::string states : {"true", "false"}) {
    const std::vector<std::string> run = {"exact=false", "local_steps=4", "average_states=" + states};
    fs::remove_all(folder_);
    const auto whole = train(3, run, settings(false, 6));  // between two averages
    fs::remove_all(folder_ + "/0000000012");
    EXPECT_EQ(train(3, run, settings(true, 6)).hash, whole.hash);
    fs::remove_all(folder_ + "/0000000012");
    EXPECT_EQ(train(2, run, settings(true, 6)).result.steps, 12);
  }
}

TEST_F(Checkpoints, HoldWhatIsRememberedOfRows) {
  const std::vector<std::string> run = {"model.name=lstm", "model.hidden=8", "model.sparse_embedding=true",
                                        "optimizer.name=adam", "optimizer.lr=0.01"};
  const auto whole = train(3, run, settings(false, 5), kTokens);
  fs::remove_all(folder_ + "/0000000012");
  EXPECT_EQ(train(3, run, settings(true, 5), kTokens).hash, whole.hash);
}

TEST_F(Checkpoints, AreKeptByNumber) {
  train(2, {"steps=12"}, settings(false, 2));
  EXPECT_EQ(CheckpointFolder(folder_).steps(), (std::vector<std::int64_t>{10, 12}));
  fs::remove_all(folder_);
  // The best by validation stays beside the last two.
  train(2, {"steps=40", "data.validation='blobs:samples=50,dims=6,classes=3'"}, settings(false, 0));
  EXPECT_GE(CheckpointFolder(folder_).steps().size(), 2U);
  EXPECT_LE(CheckpointFolder(folder_).steps().size(), 3U);
}

TEST_F(Checkpoints, ThatAreSpoiltArePassedOver) {
  const auto whole = train(2, {});
  train(2, {}, settings(false, 5));
  ASSERT_EQ(CheckpointFolder(folder_).steps(), (std::vector<std::int64_t>{10, 12}));
  const auto spoil = [this](const char* file, std::streamoff place) {
    std::fstream out(folder_ + file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(place);
    out.put('!');
  };
  spoil("/0000000012/part-00001.safetensors", 300);
  EXPECT_THROW(CheckpointFolder(folder_).read(12), Error);
  EXPECT_EQ(CheckpointFolder(folder_).newest()->step, 10);
  EXPECT_EQ(train(3, {}, settings(true, 5)).hash, whole.hash);

  spoil("/0000000012/manifest.json", 0);
  EXPECT_EQ(CheckpointFolder(folder_).newest()->step, 10);
  fs::remove(folder_ + "/0000000010/part-00000.safetensors");
  EXPECT_FALSE(CheckpointFolder(folder_).newest());
}

TEST_F(Checkpoints, UnfinishedAreNotSeen) {
  train(1, {}, settings(false, 5));
  fs::create_directory(folder_ + "/0000000099.new");
  EXPECT_EQ(CheckpointFolder(folder_).newest()->step, 12);
  train(1, {"steps=13"}, settings(true, 5));
  EXPECT_FALSE(fs::exists(folder_ + "/0000000099.new"));
}

/// Asks the process to stop in the midst of a run.
class StopAfter final : public Observer {
 public:
  explicit StopAfter(std::int64_t step) : step_(step) {}
  void on_step(const StepReport& report) override {
    if (report.step == step_) (void)raise(SIGTERM);
  }

 private:
  std::int64_t step_;
};

TEST_F(Checkpoints, AreMadeWhenARunIsAskedToStop) {
  const auto whole = train(2, {});
  const auto stopped = train(2, {}, settings(false, 1000), kBlobs, std::make_shared<StopAfter>(5));
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_EQ(stopped.result.steps, 6);  // the step after the one in which it was asked
  EXPECT_EQ(CheckpointFolder(folder_).newest()->step, 6);
  const auto resumed = train(4, {}, settings(true));
  EXPECT_FALSE(resumed.result.stopped);
  EXPECT_EQ(resumed.hash, whole.hash);
}

TEST_F(Checkpoints, StopAtTheWallTime) {
  const auto stopped = train(2, {"wall_time_s=0.000001"}, settings(false));
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_EQ(CheckpointFolder(folder_).newest()->step, stopped.result.steps);
}

}  // namespace
}  // namespace lockstep::train
