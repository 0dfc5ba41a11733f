#include "lockstep/train/trainer.h"

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/rnn.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/open.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/recipe.h"
#include "lockstep/train/testing.h"
#include "lockstep/train/trainer_check.h"

namespace lockstep::train {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;
using testing::kBlobs;
using testing::kTokens;
using testing::message_of;
using testing::refusal;
using testing::train;

/// Of all ranks at the end.
std::set<std::string> hashes(int ranks, const std::vector<std::string>& settings) {
  std::mutex mutex;
  std::set<std::string> result;
  train(ranks, settings, {}, kBlobs, nullptr, nullptr, [&](const torch::nn::Module& model) {
    const std::lock_guard lock(mutex);
    result.insert(hash_of(model));
  });
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

TEST(Training, LearnsBlobsOverEveryWire) {
  for (const std::string name : {"bf16", "fp16", "int8", "topk"}) {
    std::vector<std::string> settings = {"steps=150", "exact=false", "model.dropout=0", "wire.name=" + name};
    if (name == "topk") settings.emplace_back("wire.ratio=0.1");
    const auto outcome = train(3, settings);
    EXPECT_GT(outcome.result.evaluations[0].figures[1].second, 0.9) << name;
    EXPECT_NE(refusal(2, {"wire.name=" + name}).find("set exact = false"), std::string::npos) << name;
  }
}

class SparseEmbedding : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  static std::vector<std::string> settings(bool sparse, const std::vector<std::string>& more = {}) {
    std::vector<std::string> result = GetParam();
    result.emplace_back(sparse ? "model.sparse_embedding=true" : "model.sparse_embedding=false");
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }
};
INSTANTIATE_TEST_SUITE_P(Models, SparseEmbedding,
                         ::testing::Values(std::vector<std::string>{"model.name=lstm", "model.hidden=8"},
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

TEST_P(SparseEmbedding, IsLookedAtWhenAStepIsBad) {
  const auto spoil = [](RecipeRun& run) {
    const at::NoGradGuard no_gradients;
    const auto parameters = parallel::parameters_of(run.task->model());
    for (const auto& [name, tensor] : parameters) {
      if (parallel::sparse_parameters_of(run.task->model()).contains(name)) tensor.fill_(NAN);
    }
  };
  try {
    train(2, settings(true), {}, kTokens, nullptr, spoil);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Data) << error.message();
    const std::string message = error.message();
    EXPECT_NE(message.find("the loss is not finite in step 1"), std::string::npos) << message;
    EXPECT_NE(message.find("the first gradient that is not finite"), std::string::npos) << message;
  }
}

TEST_P(SparseEmbedding, IsRefusedByExactModeAndByMomentum) {
  EXPECT_NE(refusal(2, settings(true, {"exact=true"}), kTokens).find("set exact = false"), std::string::npos);
  EXPECT_NE(refusal(2, settings(true, {"optimizer.momentum=0.9"}), kTokens).find("without momentum"),
            std::string::npos);
}

TEST_P(SparseEmbedding, IsNotSharedOut) {
  for (const char* level : {"1", "3"}) {
    const std::string zero = std::string("parallel.zero=") + level;
    const std::string message = refusal(2, settings(true, {zero}), kTokens);
    EXPECT_NE(message.find(std::string("parallel.zero = ") + level + " sums whole gradients, and '"), std::string::npos)
        << message;
    EXPECT_NE(message.find("has sparse ones: set model.sparse_embedding = false or parallel.zero = 0"),
              std::string::npos)
        << message;
  }
}

TEST(TrainerSettings, OfAProgramAreCheckedToo) {
  const auto refused = [](const std::function<void(TrainerSettings&)>& change) {
    TrainerSettings settings;
    settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
    change(settings);
    return testing::message_of([&] { check(settings); }, Fault::Usage);
  };
  EXPECT_EQ(refused([](auto& settings) { settings.zero = 4; }), "parallel.zero = 4: it is from 0 to 3");
  EXPECT_EQ(refused([](auto& settings) { settings.zero = -1; }), "parallel.zero = -1: it is from 0 on");
  EXPECT_EQ(refused([](auto& settings) { settings.zero_ranks = -2; }), "parallel.zero_ranks = -2: it is from 0 on");
  EXPECT_EQ(refused([](auto& settings) { settings.unit_bytes = -1; }), "parallel.unit_bytes = -1: it is from 0 on");
  EXPECT_EQ(refused([](auto& settings) { settings.recompute_every = -1; }), "recompute = -1: it is from 0 on");
  EXPECT_EQ(refused([](auto& settings) { settings.pipeline_chunks = 0; }), "parallel.chunks = 0: it is from 1 on");
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

TEST(Training, GivesEveryDropoutItsOwnMask) {
  struct Net : torch::nn::Module {
    parallel::Linear layer = register_module("layer", parallel::Linear(6, 3));
    parallel::Dropout one = register_module("one", parallel::Dropout(0.5));
    parallel::Dropout other = register_module("other", parallel::Dropout(0.5));
  };
  class DroppingTask final : public Task {
   public:
    torch::nn::Module& model() override { return net; }
    Score score(const data::Batch& batch) override {
      const at::Tensor outputs = net.layer(net.one(net.other(batch.tensors[0].flatten(1))));
      const at::Tensor targets = batch["label"].flatten().to(at::kLong);
      return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum), targets.numel(), outputs.detach(),
              targets};
    }
    Net net;
  };
  on_ranks({1}, [](Communicator& group) {
    DroppingTask task;
    TrainerSettings settings;
    settings.steps = 1;
    settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
    Trainer(group, settings).fit(task, {.train = data::open("blobs:samples=130,dims=6,classes=3")});
    EXPECT_NE(task.net.one->key, task.net.other->key);
  });
}

/// The first of many parameters is all that it uses.
class WastefulTask final : public Task {
 public:
  explicit WastefulTask(int unused) {
    net_.register_module("layer", layer_);
    for (int number = 0; number < unused; ++number) {
      net_.register_parameter("spare" + std::to_string(number), at::zeros({2}));
    }
  }
  torch::nn::Module& model() override { return net_; }
  Score score(const data::Batch& batch) override {
    const at::Tensor outputs = layer_(batch.tensors[0].flatten(1));
    const at::Tensor targets = batch["label"].flatten().to(at::kLong);
    return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum), targets.numel(), outputs.detach(),
            targets};
  }

 private:
  torch::nn::Module net_;
  parallel::Linear layer_{6, 3};
};

TEST(Training, NamesWhatBackwardDoesNotReach) {
  const auto warning = [](int unused) {
    std::ostringstream text;
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
    log().sinks().push_back(sink);
    on_ranks({1}, [unused](Communicator& group) {
      WastefulTask task(unused);
      TrainerSettings settings;
      settings.steps = 2;
      settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
      Trainer(group, settings).fit(task, {.train = data::open("blobs:samples=130,dims=6,classes=3")});
    });
    log().sinks().pop_back();
    return text.str();
  };
  const std::string few = warning(2), many = warning(13);
  EXPECT_NE(few.find("does not reach 2 of 4 parameters: spare0, spare1;"), std::string::npos) << few;
  EXPECT_NE(many.find("spare8, spare9, … (13 in all);"), std::string::npos) << many;
}

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

TEST(SyncBatchNorm, HasNoPieceWithoutSamples) {
  on_ranks({3}, [](Communicator& group) {
    NormedTask task;
    TrainerSettings settings;
    settings.batch = 64;  // of 130: the last has 2
    settings.accumulate = 2;
    settings.sync_batch_norm = true;
    settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
    const auto set = data::open("blobs:samples=130,dims=6,classes=3");
    EXPECT_EQ(Trainer(group, settings).fit(task, {.train = set}).steps, 3);
  });
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
  EXPECT_NE(refusal(2, {"local_steps=4", "exact=false", "precision=fp16"}).find("loss scale"), std::string::npos);
  for (const std::string name : {"ema", "guard"}) {
    EXPECT_NE(
        refusal(2, {"local_steps=4", "exact=false", "callbacks." + name + "={}"}).find("does not go with local_steps"),
        std::string::npos)
        << name;
  }
  EXPECT_NE(refusal(2, {"local_steps=-1", "exact=false"}).find("from 0 on"), std::string::npos);
}

class ExactMode : public ::testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Recipes, ExactMode,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"accumulate=2", "clip_norm=0.1"},
                                           std::vector<std::string>{"optimizer.name=lamb", "clip_value=0.01"},
                                           std::vector<std::string>{"batch=7", "clip_norm=0.1"},
                                           std::vector<std::string>{"precision=float64"},
                                           std::vector<std::string>{"precision=bf16", "clip_norm=0.1"},
                                           std::vector<std::string>{"precision=fp16", "loss_scale.grow_after=3"},
                                           // Overflows at first.
                                           std::vector<std::string>{"precision=fp16", "loss_scale.start=1048576",
                                                                    "clip_value=0.01", "accumulate=2"}));

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

TEST(ExactMode, GivesTheSamePerplexityOnAnyNumberOfRanks) {
  const std::vector<std::string> run = {"exact=true",
                                        "precision=float64",
                                        "model.name=lstm",
                                        "model.hidden=8",
                                        "data.test='tokens:samples=70,length=9,vocabulary=60,seed=2'",
                                        "evaluation_batch=23"};
  const auto alone = train(1, run, {}, kTokens).result.evaluations.at(0).figures;
  EXPECT_EQ(alone.at(1).first, "perplexity");
  for (const int ranks : {2, 3, 4, 8}) {
    EXPECT_EQ(train(ranks, run, {}, kTokens).result.evaluations.at(0).figures, alone) << ranks;
  }
}

TEST(ExactMode, RefusesLayersThatDrawWithoutKnowingShards) {
  struct DrawingTask final : Task {
    explicit DrawingTask(const std::shared_ptr<torch::nn::Module>& draws) {
      net.register_module("layer", parallel::Linear(6, 3).ptr());
      net.register_module("draws", draws);
    }
    torch::nn::Module& model() override { return net; }
    Score score(const data::Batch&) override { return {}; }
    torch::nn::Module net;
  };
  const std::shared_ptr<torch::nn::Module> layers[] = {
      torch::nn::Dropout(0.5).ptr(), torch::nn::RReLU().ptr(),
      torch::nn::LSTM(torch::nn::LSTMOptions(4, 4).num_layers(2).dropout(0.1)).ptr(),
      torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(4, 2).dropout(0.1)).ptr()};
  for (const auto& layer : layers) {
    const auto draw = [&](RecipeRun& run) { run.task = std::make_unique<DrawingTask>(layer); };
    EXPECT_SAYS(message_of([&] { train(1, {}, {}, kBlobs, nullptr, draw); }), "'draws' is a layer of torch::nn");
  }
}

/// Lines of text, by the mean of their bytes, padding counted: its length must not depend on the rank.
class PaddedTask final : public Task {
 public:
  torch::nn::Module& model() override { return net_; }
  Score score(const data::Batch& batch) override {
    const at::Tensor means = batch.tensors[0].to(at::kFloat).mean(1, true) / 100;
    const at::Tensor loss = net_.layer(means).square().sum();
    return {loss, batch.count(), loss.detach().view({1, 1}), at::zeros({1}, at::kLong)};
  }

 private:
  struct Net : torch::nn::Module {
    parallel::Linear layer = register_module("layer", parallel::Linear(1, 1));
  } net_;
};

TEST(ExactMode, PadsShardsByThemselves) {
  const test::TemporaryFolder folder;
  std::string lines;
  for (int line = 0; line < 60; ++line) lines += std::string(static_cast<std::size_t>(1 + line * 37 % 50), 'x') + "\n";
  const std::string path = folder.write("lines.txt", lines);
  std::set<std::string> hashes;
  for (const int ranks : {1, 2, 3, 8}) {
    on_ranks({ranks}, [&](Communicator& group) {
      PaddedTask task;
      const at::NoGradGuard no_gradients;
      for (auto& parameter : task.model().parameters()) parameter.fill_(0.5);
      TrainerSettings settings;
      settings.steps = 6;
      settings.batch = 20;
      settings.exact = true;
      settings.shards = 8;
      settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
      const at::AutoGradMode gradients(true);
      Trainer(group, settings).fit(task, {.train = data::open(path)});
      if (group.rank() == 0) hashes.insert(hash_of(task.model()));
    });
  }
  EXPECT_EQ(hashes.size(), 1U);
}

/// A batch norm sees tens, whatever the data.
class TensTask final : public Task {
 public:
  struct Net : torch::nn::Module {
    parallel::BatchNorm norm = register_module("norm", parallel::BatchNorm(1));
    parallel::Linear last = register_module("last", parallel::Linear(6, 3));
  };
  torch::nn::Module& model() override { return net; }
  Score score(const data::Batch& batch) override {
    const at::Tensor targets = batch["label"].flatten().to(at::kLong);
    const at::Tensor outputs = net.last(net.norm(at::full({targets.numel(), 1, 6}, 10.0F)).flatten(1));
    return {at::cross_entropy_loss(outputs, targets, {}, at::Reduction::Sum), targets.numel(), outputs.detach(),
            targets};
  }
  Net net;
};

TEST(ExactMode, TakesNoStatisticsOfEmptyShards) {
  for (const int ranks : {1, 3}) {
    on_ranks({ranks}, [](Communicator& group) {
      TensTask task;
      TrainerSettings settings;
      settings.steps = 3;
      settings.batch = 2;  // of 16 shards
      settings.exact = true;
      settings.optimizer = parallel::make_optimizer("sgd", Config(), "optimizer");
      Trainer(group, settings).fit(task, {.train = data::open("blobs:samples=130,dims=6,classes=3")});
      EXPECT_EQ(task.net.norm->num_batches_tracked.item<int>(), 3);
      EXPECT_NEAR(task.net.norm->running_mean.item<double>(), 10 * (1 - std::pow(0.9, 3)), 1e-5);
    });
  }
}

class FusedStep : public ::testing::TestWithParam<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Recipes, FusedStep,
                         ::testing::Values(std::vector<std::string>{"optimizer.name=sgd"},
                                           std::vector<std::string>{"optimizer.name=sgd", "optimizer.momentum=0.9",
                                                                    "optimizer.nesterov=true"},
                                           std::vector<std::string>{"optimizer.name=adamw",
                                                                    "optimizer.weight_decay=0.1",
                                                                    "optimizer.no_decay=['*.bias']"},
                                           std::vector<std::string>{"optimizer.name=adagrad", "accumulate=2"},
                                           std::vector<std::string>{"optimizer.name=rmsprop", "exact=false"}));

TEST_P(FusedStep, HasTheBitsOfThePlainOne) {
  const auto with = [](const std::string& more) {
    auto settings = GetParam();
    settings.push_back(more);
    return settings;
  };
  for (const int ranks : {1, 2, 3, 5}) {
    const auto plain = train(ranks, with("fuse_step=false"));
    EXPECT_EQ(train(ranks, with("fuse_step=true")).hash, plain.hash) << ranks;
  }
}

TEST(FusedStep, IsRefusedWhereItCannotBe) {
  for (const auto& [setting, why] : {std::pair("clip_norm=1", "clipping"),
                                     {"clip_value=1", "clipping"},
                                     {"optimizer.name=lamb", "whole parameters"},
                                     {"wire.name=bf16", "a wire"},
                                     {"local_steps=2", "every rank steps on its own"},
                                     {"precision=fp16", "loss scaling"},
                                     {"callbacks.guard.factor=1000", "guard looks at all gradients"}}) {
    const std::string message = refusal(2, {"exact=false", "fuse_step=true", setting});
    EXPECT_NE(message.find("fuse_step = true cannot be: "), std::string::npos) << setting;
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_NO_THROW(train(2, {"exact=false", setting, "steps=2"})) << setting;
  }
}

TEST(ExactMode, HasTheSameBitsWithAShardForEachRank) {
  const auto alone = train(1, {"shards=16", "batch=33", "clip_norm=0.1"});
  const auto outcome = train(16, {"shards=16", "batch=33", "clip_norm=0.1"});
  EXPECT_EQ(outcome.hash, alone.hash);
  EXPECT_EQ(outcome.result.loss, alone.result.loss);
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
  EXPECT_NE(message("batch=0").find("batch = 0"), std::string::npos);
  EXPECT_NE(message("data.train=''").find("names no data"), std::string::npos);
}

TEST(Precision, IsTheRecipes) {
  const auto loss = [](const std::string& setting) {
    std::vector<std::string> settings{setting, "exact=false", "model.dropout=0", "steps=40"};
    // A scale that is right from the start: steps that are skipped to find it would be missing.
    if (setting.ends_with("fp16")) settings.emplace_back("loss_scale.start=256");
    return train(2, settings).result.loss;
  };
  const double whole = loss("precision=float32");
  EXPECT_NEAR(loss("precision=float64"), whole, 1e-4 * whole);
  EXPECT_NE(loss("precision=float64"), whole);
  for (const char* half : {"precision=bf16", "precision=fp16"}) {
    EXPECT_NE(loss(half), whole) << half;
    EXPECT_NEAR(loss(half), whole, 0.1 * whole) << half;
  }
}

/// What the model holds at the end.
TEST(Precision, Float64IsEverywhere) {
  on_ranks({1}, [](Communicator& group) {
    Config recipe = Config::from_text(kBlobs);
    recipe.set("precision=float64");
    auto run = make_run(recipe, group);
    Trainer(group, run.settings).fit(*run.task, run.data);
    for (const auto& [name, tensor] : parallel::parameters_of(run.task->model())) {
      EXPECT_EQ(tensor.scalar_type(), at::kDouble) << name;
      EXPECT_FALSE(at::equal(tensor, tensor.to(at::kFloat).to(at::kDouble))) << name;
    }
  });
}

/// How much it is shown at once, on any rank.
class Watching final : public Metric {
 public:
  explicit Watching(bool needs_outputs) : needs_outputs_(needs_outputs) {}
  std::vector<std::string> names() const override { return {"tokens"}; }
  bool needs_outputs() const override { return needs_outputs_; }
  at::Tensor sums(const Score& score) const override {
    const std::lock_guard lock(mutex_);
    most_tokens = std::max(most_tokens, score.count);
    classes = std::max(classes, score.outputs.defined() ? score.outputs.size(1) : 0);
    return at::full({1}, static_cast<double>(score.count), at::kDouble);
  }
  Figures figures(const at::Tensor& sums) const override { return {{"tokens", sums.item<double>()}}; }

  mutable std::int64_t most_tokens = 0, classes = 0;

 private:
  bool needs_outputs_;
  mutable std::mutex mutex_;
};

TEST(Evaluation, TakesNoMoreMemoryThanAStep) {
  struct Case {
    int ranks;
    std::vector<std::string> settings;
    std::int64_t samples;  // of a micro-batch on a rank
  };
  double loss = 0;
  for (auto& [ranks, settings, samples] :
       {Case{1, {}, 8}, Case{1, {"accumulate=3"}, 3}, Case{2, {}, 4}, Case{2, {"parallel.tensor=2"}, 8},
        Case{2, {"parallel.pipe=2", "accumulate=4"}, 2}, Case{2, {"parallel.zero=3", "accumulate=2"}, 2}}) {
    for (const bool needs_outputs : {false, true}) {
      auto run = settings;
      run.emplace_back("data.test='tokens:samples=60,length=33,vocabulary=97'");
      const auto metric = std::make_shared<Watching>(needs_outputs);
      const auto result = train(ranks, run, {}, testing::kGpt, nullptr, [&](RecipeRun& made) {
                            made.settings.metrics = {metric};
                          }).result;
      const std::string what = fmt::format("{} ranks, {}", ranks, settings.empty() ? "" : settings[0]);
      const auto& figures = result.evaluations.at(0).figures;
      EXPECT_EQ(figures.at(1).second, 60 * 32) << what;
      if (loss == 0) loss = figures.at(0).second;
      EXPECT_NEAR(figures.at(0).second, loss, 1e-4) << what;
      EXPECT_LE(metric->most_tokens, samples * 32) << what;
      EXPECT_EQ(metric->classes, needs_outputs ? 97 : 0) << what;
    }
  }
}

TEST(Precision, LeavesWeightsUntouchedThatNobodyHasFilled) {
  const parallel::DeferredFilling deferred;
  torch::nn::Module model;
  model.register_module("large", parallel::Linear(8192, 8192));  // 512 MiB in float64
  const std::int64_t before = anonymous_bytes();
  convert_(model, Precision::Float64);
  EXPECT_LT(anonymous_bytes() - before, std::int64_t{64} << 20);
  for (const auto& tensor : model.parameters()) EXPECT_EQ(tensor.scalar_type(), at::kDouble);
}

// Scaling by powers of two does not round, but where it saves what would vanish in half.
TEST(Precision, LossScalingLeavesTheStepAsItIs) {
  const std::vector<std::string> sgd = {"precision=fp16", "optimizer.name=sgd", "steps=5", "clip_norm=0.05"};
  auto with = [&](const std::string& setting) {
    auto settings = sgd;
    settings.push_back(setting);
    return train(2, settings);
  };
  const auto one = with("loss_scale.start=4096"), other = with("loss_scale.start=16384");
  EXPECT_EQ(one.result.skipped, 0);
  EXPECT_EQ(other.result.skipped, 0);
  EXPECT_NEAR(one.result.loss, other.result.loss, 1e-3);
}

TEST(Precision, StepsThatOverflowAreSkippedOnAllRanks) {
  const std::string start = "loss_scale.start=" + std::to_string(std::int64_t{1} << 34);
  // No step is taken while it overflows: the weights are those of the start.
  const auto untouched = train(2, {"precision=fp16", start, "steps=3"});
  EXPECT_EQ(untouched.result.skipped, 3);
  EXPECT_EQ(train(2, {"precision=fp16", start, "steps=2"}).hash, untouched.hash);
  const auto later = train(2, {"precision=fp16", start, "steps=100", "model.dropout=0"});
  EXPECT_GT(later.result.skipped, 10);
  EXPECT_LT(later.result.skipped, 40);
  EXPECT_LT(later.result.loss, 0.9);
}

// One stage's gradients, or those of one rank's part of a layer, overflow before others do.
TEST(Precision, StepsThatOverflowAreSkippedUnderAnyLayout) {
  struct Case {
    int ranks;
    std::vector<std::string> settings;
  };
  std::vector<std::pair<std::int64_t, double>> all;
  for (const auto& [ranks, settings] :
       {Case{1, {"accumulate=2"}}, Case{2, {"parallel.tensor=2", "accumulate=2"}},
        Case{2, {"parallel.pipe=2", "accumulate=2"}}, Case{2, {"parallel.zero=2"}}, Case{2, {"parallel.zero=3"}},
        Case{4, {"parallel.pipe=2", "parallel.tensor=2", "accumulate=2"}}}) {
    std::vector<std::string> run{"precision=fp16", fmt::format("loss_scale.start={}", std::int64_t{1} << 30),
                                 "steps=20", "clip_norm=0.5", "optimizer.name=sgd"};
    run.insert(run.end(), settings.begin(), settings.end());
    const auto result = train(ranks, run, {}, testing::kGpt).result;
    all.emplace_back(result.skipped, result.loss);
    EXPECT_EQ(all.back().first, all.front().first) << ranks << " ranks, " << settings.front();
    EXPECT_NEAR(all.back().second, all.front().second, 1e-3) << ranks << " ranks, " << settings.front();
  }
  EXPECT_GT(all.front().first, 3);
  EXPECT_LT(all.front().first, 20);
}

TEST(Precision, SaysWhatItIs) {
  const auto message = [](const std::vector<std::string>& settings) -> std::string {
    try {
      train(1, settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message({"precision=half"}).find("\"float32\", \"float64\", \"bf16\" or \"fp16\""), std::string::npos);
  EXPECT_NE(message({"loss_scale.start=8"}).find("is of precision = \"fp16\""), std::string::npos);
  EXPECT_NE(message({"precision=fp16", "loss_scale.start=1000"}).find("power of two"), std::string::npos);
}

// Convolutions, norms, recurrence and attention: what one process gets in a precision any ranks get.
struct PrecisionCase {
  const char* name;
  std::string recipe;
  std::vector<int> ranks;
};

TEST(Precision, IsForModelsOfEveryKind) {
  const std::string images = "exact = true\n[data]\ntransforms = ['normalise image']\ntrain = 'images:samples=32,";
  const std::string tokens =
      "steps = 2\nbatch = 8\nshards = 4\nexact = true\n[data]\ntrain = 'tokens:samples=32,length=9,vocabulary=11'\n"
      "[task]\nname = 'next_token'\nvocabulary = 11\n[model]\ndropout = 0.1\n";
  const PrecisionCase cases[] = {
      {"mnist_cnn",
       "steps = 2\nbatch = 8\nshards = 4\n" + images + "size=28,channels=1,classes=3'\n[model]\nname = 'mnist_cnn'",
       {2, 3}},
      // Of eleven million weights, so a step of few samples.
      {"resnet18",
       "steps = 1\nbatch = 4\nshards = 2\n" + images + "size=8,channels=3,classes=3'\n[model]\nname = 'resnet18'",
       {2}},
      {"lstm", tokens + "name = 'lstm'\nwidth = 8\nhidden = 8", {2, 3}},
      {"gpt", tokens + "name = 'gpt'\nwidth = 16\nlayers = 2\nheads = 2", {2, 3}},
  };
  for (const auto& [name, recipe, more] : cases) {
    std::set<std::string> hashes;
    for (const char* precision : {"precision=float32", "precision=float64", "precision=bf16", "precision=fp16"}) {
      const auto alone = train(1, {precision}, {}, recipe);
      EXPECT_TRUE(std::isfinite(alone.result.loss)) << name << ", " << precision;
      EXPECT_TRUE(hashes.insert(alone.hash).second) << name << ", " << precision;
      for (const int ranks : more) {
        EXPECT_EQ(train(ranks, {precision}, {}, recipe).hash, alone.hash) << name << ", " << precision << ", " << ranks;
      }
    }
  }
}

/// Changes a weight of its rank, as a fault of memory would.
class Disturbs final : public Observer {
 public:
  Disturbs(torch::nn::Module& model, std::int64_t step) : model_(model), step_(step) {}
  void on_step(const StepReport& report) override {
    if (report.step == step_) parallel::parameters_of(model_)[0].tensor.mutable_data_ptr<float>()[3] += 1e-3F;
  }

 private:
  torch::nn::Module& model_;
  std::int64_t step_;
};

TEST(Training, NamesARankThatDrifted) {
  const auto run_with = [](const std::vector<std::string>& settings, int ranks = 3, const char* text = kBlobs) {
    on_ranks({ranks}, [&](Communicator& group) {
      Config recipe = Config::from_text(text);
      for (const auto& setting : settings) recipe.set(setting);
      auto run = make_run(recipe, group);
      Trainer trainer(group, run.settings);
      if (group.rank() == 1) trainer.add(std::make_shared<Disturbs>(run.task->model(), 2));
      trainer.fit(*run.task, run.data);
    });
  };
  // An epoch has seven steps.
  EXPECT_NO_THROW(run_with({"steps=6", "fuse_step=false"}));
  EXPECT_THROW(run_with({"steps=7", "fuse_step=false"}), Error);
  EXPECT_NO_THROW(run_with({"steps=7", "fuse_step=true"})) << "every step stores the owner's weights on all ranks";
  try {
    run_with({"steps=6", "check_every_steps=3", "fuse_step=false"});
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("the weights of rank 1 are not those of the other 2"), std::string::npos)
        << error.message();
  }
  try {
    run_with({"steps=7", "fuse_step=false"}, 2);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("the weights of ranks [0] and [1] differ, and no side has most"), std::string::npos)
        << error.message();
  }
  EXPECT_THROW(run_with({"check_every_steps=-1"}), Error);
  // gpt's head is its embedding, which two stages have.
  EXPECT_SAYS(message_of([&] { run_with({"steps=6", "check_every_steps=3", "parallel.pipe=2"}, 2, testing::kGpt); },
                         Fault::Comm),
              "weights that ranks 0 and 1 both have (");
}

TEST(Training, KnowsHowUnequalRanksAre) {
  /// The rank that has the first sample of a batch takes its time.
  class Slow final : public Task {
   public:
    explicit Slow(std::unique_ptr<Task> task) : task_(std::move(task)) {}
    torch::nn::Module& model() override { return task_->model(); }
    Score score(const data::Batch& batch) override {
      if (batch.first == 0) std::this_thread::sleep_for(std::chrono::milliseconds(40));
      return task_->score(batch);
    }

   private:
    std::unique_ptr<Task> task_;
  };
  const auto slow = [](RecipeRun& run) { run.task = std::make_unique<Slow>(std::move(run.task)); };
  const std::vector<std::string> recipe = {"exact=false", "steps=6"};
  EXPECT_EQ(train(1, recipe, {}, kBlobs, nullptr, slow).result.imbalance, 1);
  // Four ranks of which one does nearly all: up to four times the mean.
  const auto result = train(4, recipe, {}, kBlobs, nullptr, slow).result;
  EXPECT_GT(result.imbalance, 2);
  EXPECT_LE(result.imbalance, 4);
}

TEST(Training, SaysWhereALossIsNotFinite) {
  for (const char* exact : {"exact=false", "exact=true"}) {
    try {
      train(2, {"optimizer.name=sgd", "optimizer.lr=1e30", exact});
      FAIL() << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("the loss is not finite in step"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("rank 0"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("is that of layers.2."), std::string::npos) << error.message();
    }
  }
}

}  // namespace
}  // namespace lockstep::train
