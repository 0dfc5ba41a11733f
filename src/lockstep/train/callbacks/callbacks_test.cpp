// Callbacks in whole runs: what they do, on any number of ranks, and that runs with them are
// resumed exactly.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::kBlobs;
using testing::message_of;
using testing::train;
using Settings = std::vector<std::string>;

constexpr const char kValidation[] = "data.validation='blobs:samples=50,dims=6,classes=3'";

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Callbacks : public ::testing::Test {
 protected:
  CheckpointSettings settings(bool resume, std::int64_t every) const {
    return {.folder = folder_.path(), .every_steps = every, .keep_last = 100, .resume = resume};
  }
  /// A run of `settings` that is killed after step `killed` and resumed ends as one that was not.
  testing::Outcome survives(const Settings& recipe, std::int64_t killed,
                            const std::function<void(RecipeRun&)>& change = {}) {
    auto whole = train(2, recipe, {}, kBlobs, nullptr, change);
    train(1, recipe, settings(false, 1), kBlobs, nullptr, change);
    for (const auto step : CheckpointFolder(folder_.path()).steps()) {
      if (step > killed) CheckpointFolder(folder_.path()).remove(step);
    }
    const auto resumed = train(3, recipe, settings(true, 1), kBlobs, nullptr, change);
    EXPECT_EQ(resumed.hash, whole.hash);
    EXPECT_EQ(resumed.result.steps, whole.result.steps);
    EXPECT_EQ(resumed.result.ended_early, whole.result.ended_early);
    EXPECT_EQ(resumed.result.evaluations.back().figures, whole.result.evaluations.back().figures);
    return whole;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(Callbacks, AreNamedInTheRecipe) {
  const auto message = [](const std::string& setting) {
    return message_of([&] { train(1, {setting}); }, Fault::Usage);
  };
  EXPECT_TRUE(has(message("callbacks.emma={}"), "unknown callback 'emma'; did you mean 'ema'"));
  EXPECT_TRUE(has(message("callbacks.ema.decy=0.9"), "did you mean 'callbacks.ema.decay'"));
  EXPECT_TRUE(has(message("callbacks.ema.decay=1.0"), "from 0 to below 1"));
  EXPECT_TRUE(has(message("callbacks.ema=3"), "a table"));
  EXPECT_TRUE(has(message("callbacks.early_stopping.patience=0"), "from 1 on"));
  EXPECT_TRUE(has(message("callbacks.early_stopping={}"), "set data.validation"));
  EXPECT_TRUE(has(message("callbacks.guard.on_spike=ignore"), "\"stop\" or \"skip\""));
  EXPECT_TRUE(has(message("callbacks.guard.factor=1"), "above 1"));
  EXPECT_TRUE(has(message_of([] { train(1, {kValidation, "callbacks.early_stopping.metric=acuracy"}); }, Fault::Usage),
                  "did you mean 'accuracy'"));
}

// ---- early stopping ------------------------------------------------------------------------

TEST_F(Callbacks, EarlyStoppingEndsARunThatGetsNoBetter) {
  // 7 steps an epoch; no gain is as large as 100, so the third validation after the first is the last.
  const Settings recipe = {"steps=100", kValidation, "callbacks.early_stopping={min_delta=100, patience=3}"};
  const auto outcome = survives(recipe, 16);
  EXPECT_EQ(outcome.result.steps, 28);
  EXPECT_TRUE(has(outcome.result.ended_early, "early_stopping: 3 validations without a better loss"));
  EXPECT_FALSE(outcome.result.stopped);
  EXPECT_EQ(outcome.result.evaluations.back().of, "test");
  // It has ended, and is not trained any further.
  const auto again = train(2, recipe, settings(true, 1));
  EXPECT_EQ(again.result.steps, 28);
  EXPECT_EQ(again.hash, outcome.hash);
}

TEST_F(Callbacks, EarlyStoppingKnowsWhichWayIsBetter) {
  // After how many of these validations it wants to end.
  const auto ends_after = [](const std::string& metric, const std::vector<double>& values) {
    const Config recipe =
        Config::from_text("[callbacks.early_stopping]\npatience = 2\nmin_delta = 0.1\nmetric = '" + metric + "'");
    const auto callback = make_callbacks(recipe, "callbacks").at(0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      callback->on_evaluation({"test", 1, 1, 10, {{metric, 0}}});  // is none of its business
      callback->on_evaluation({"validation", 1, 1, 10, {{metric, values[i]}}});
      if (!callback->wants_end().empty()) return static_cast<int>(i) + 1;
    }
    return 0;
  };
  EXPECT_EQ(ends_after("loss", {5, 4, 3, 2, 1}), 0);
  EXPECT_EQ(ends_after("perplexity", {1, 2, 3, 4}), 3);
  EXPECT_EQ(ends_after("accuracy", {0.1, 0.3, 0.5, 0.7}), 0);
  EXPECT_EQ(ends_after("accuracy", {0.5, 0.7, 0.75, 0.79, 0.9}), 4);
  EXPECT_EQ(ends_after("accuracy", {0.5, 0.3, 0.7, 0.6, 0.9, 0.9, 0.9}), 7);
  EXPECT_EQ(ends_after("loss", {1, std::nan(""), std::nan("")}), 3);
  EXPECT_EQ(ends_after("loss", {std::nan(""), 5, 4, 3, 2}), 0);
  EXPECT_EQ(ends_after("accuracy", {std::nan(""), std::nan(""), 1}), 2);
}

// ---- moving averages -----------------------------------------------------------------------

/// Follows the average as its definition says.
class Follows final : public Callback {
 public:
  explicit Follows(double decay) : decay_(decay) {}
  std::string name() const override { return "follows"; }
  void attach(torch::nn::Module& model) override {
    weights_ = parallel::parameters_of(model);
    for (const auto& weight : weights_) averages_.push_back(weight.tensor.detach().to(at::kDouble).clone());
  }
  void on_step(const StepReport&) override {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      averages_[i] = decay_ * averages_[i] + (1 - decay_) * weights_[i].tensor.detach().to(at::kDouble);
    }
  }
  const std::vector<at::Tensor>& averages() const { return averages_; }

 private:
  double decay_;
  parallel::Parameters weights_;
  std::vector<at::Tensor> averages_;
};

TEST_F(Callbacks, EmaIsTheAverageOfTheWeights) {
  std::shared_ptr<Follows> follows;
  const Settings recipe = {"precision=float64", "callbacks.ema={decay=0.9, warmup=false}"};
  train(1, recipe, settings(false, 12), kBlobs, nullptr, [&](RecipeRun& run) {
    follows = std::make_shared<Follows>(0.9);
    run.settings.callbacks.push_back(follows);
  });
  const auto checkpoint = CheckpointFolder(folder_.path()).newest();
  ASSERT_TRUE(checkpoint);
  std::size_t found = 0;
  for (const auto& name : checkpoint->tensors.names()) {
    if (!name.starts_with("ema/")) continue;
    EXPECT_TRUE(checkpoint->tensors.read(name).allclose(follows->averages()[found], 1e-12, 1e-14)) << name;
    ++found;
  }
  EXPECT_EQ(found, 6U);
}

TEST_F(Callbacks, EmaIsEvaluatedAndLeavesTheRunAsItIs) {
  const auto plain = train(2, {kValidation});
  const auto averaged = train(2, {kValidation, "callbacks.ema.decay=0.99"});
  EXPECT_EQ(averaged.hash, plain.hash);
  EXPECT_NE(averaged.result.evaluations[0].figures, plain.result.evaluations[0].figures);
  // Weights that are averaged over nothing are the weights.
  const auto same = train(2, {kValidation, "callbacks.ema={decay=0.0, warmup=false}"});
  EXPECT_EQ(same.result.evaluations[0].figures, plain.result.evaluations[0].figures);
}

TEST_F(Callbacks, EmaIsResumedExactly) { survives({kValidation, "callbacks.ema.decay=0.99"}, 9); }

TEST_F(Callbacks, EmaMayBeginLater) {
  train(1, {}, settings(false, 6));
  CheckpointFolder(folder_.path()).remove(12);
  EXPECT_NO_THROW(train(2, {"callbacks.ema={}"}, settings(true, 6)));
  const auto newest = CheckpointFolder(folder_.path()).newest();
  EXPECT_EQ(newest->facts.at("callbacks").at("ema").at("steps"), 6);
}

// ---- the guard -----------------------------------------------------------------------------

/// One sample of it holds a value of its own.
class Poisoned final : public data::Dataset {
 public:
  Poisoned(data::DatasetPtr whole, std::int64_t sample, float value)
      : whole_(std::move(whole)), sample_(sample), value_(value) {}
  const data::Schema& schema() const noexcept override { return whole_->schema(); }
  std::int64_t size() const noexcept override { return whole_->size(); }
  std::string name(std::int64_t index) const override { return whole_->name(index); }
  void read(std::int64_t index, data::Sample& sample) const override {
    whole_->read(index, sample);
    if (index != sample_) return;
    auto& bytes = sample.values[0].bytes;
    auto copy = sample.scratch.take(bytes.size());
    std::copy(bytes.begin(), bytes.end(), copy.begin());
    std::memcpy(copy.data(), &value_, sizeof value_);
    bytes = copy;
  }

 private:
  data::DatasetPtr whole_;
  std::int64_t sample_;
  float value_;
};

std::function<void(RecipeRun&)> poison(std::int64_t sample, float value) {
  return [=](RecipeRun& run) { run.data.train = std::make_shared<Poisoned>(run.data.train, sample, value); };
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
/// In order, so that step 3 holds samples 40 to 59; of two ranks the second has 50 to 59.
const Settings kInOrder = {"data.order=sequential"};

class NamesTheCulprit : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, NamesTheCulprit, ::testing::Values("exact=false", "exact=true"));

TEST_P(NamesTheCulprit, WhenASampleIsSpoilt) {
  const auto text =
      message_of([&] { train(2, with(kInOrder, {GetParam()}), {}, kBlobs, nullptr, poison(53, kNan)); }, Fault::Data);
  EXPECT_TRUE(has(text, "the loss is not finite in step 3 (epoch 0, samples 40 to 59 of its order); rank 1")) << text;
  EXPECT_TRUE(has(text, "values of 53 are not finite")) << text;
  EXPECT_TRUE(has(text, "is that of layers.2.")) << text;
}

/// A finite loss of which the gradient of one layer is no number, on the rank that has the sample.
class BadGradient final : public Task {
 public:
  BadGradient(std::unique_ptr<Task> task, std::int64_t sample) : task_(std::move(task)), sample_(sample) {}
  torch::nn::Module& model() override { return task_->model(); }
  Score score(const data::Batch& batch) override {
    Score score = task_->score(batch);
    if (std::find(batch.ids.begin(), batch.ids.end(), sample_) == batch.ids.end()) return score;
    // The root has no slope at 0.
    score.loss = score.loss + (parallel::parameters_of(model())[2].tensor.sum() * 0).sqrt();
    return score;
  }

 private:
  std::unique_ptr<Task> task_;
  std::int64_t sample_;
};

std::function<void(RecipeRun&)> bad_gradient(std::int64_t sample) {
  return [=](RecipeRun& run) { run.task = std::make_unique<BadGradient>(std::move(run.task), sample); };
}

TEST_P(NamesTheCulprit, WhenAGradientIsNotFinite) {
  for (const auto& [sample, rank] : {std::pair(45, "rank 0"), std::pair(58, "rank 1")}) {
    const auto text = message_of(
        [&, sample = sample] {
          train(2, with(kInOrder, {GetParam(), "callbacks.guard={}"}), {}, kBlobs, nullptr, bad_gradient(sample));
        },
        Fault::Data);
    EXPECT_TRUE(has(text, "the gradients are not finite in step 3")) << text;
    EXPECT_TRUE(has(text, rank)) << text;
    EXPECT_TRUE(has(text, "is that of layers.1.weight")) << text;
    EXPECT_TRUE(has(text, std::to_string(sample))) << text;
  }
}

TEST_F(Callbacks, TheCheckpointUnderWayIsKeptWhenTheGuardStops) {
  const auto text = message_of(
      [&] { train(2, with(kInOrder, {"callbacks.guard={}"}), settings(false, 2), kBlobs, nullptr, bad_gradient(45)); },
      Fault::Data);
  EXPECT_TRUE(has(text, "in step 3")) << text;
  EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), std::vector<std::int64_t>{2});
}

// No scale of the loss helps; without a guard too it ends.
TEST_P(NamesTheCulprit, WhenHalfPrecisionOverflowsAtAnyScale) {
  const Settings recipe = {GetParam(), "batch=130", "precision=fp16", "loss_scale.start=0.000030517578125"};
  const auto text =
      message_of([&] { train(2, with(kInOrder, recipe), {}, kBlobs, nullptr, bad_gradient(99)); }, Fault::Data);
  // From 2^-15 down to 2^-16, and once more.
  EXPECT_TRUE(has(text, "gradients are not finite at a loss scale as low as 7.62939453125e-06 in step 3")) << text;
  EXPECT_TRUE(has(text, "rank 1")) << text;
  EXPECT_TRUE(has(text, "is that of layers.1.weight")) << text;
}

TEST_P(NamesTheCulprit, OfASpike) {
  // 70 epochs of 2 steps; sample 30 is of the second rank and the second step.
  const Settings recipe = {"batch=20",        "steps=60", "data.train='blobs:samples=40,dims=6,classes=3'",
                           "model.dropout=0", GetParam(), "callbacks.guard.factor=5"};
  EXPECT_NO_THROW(train(2, with(kInOrder, recipe)));
  // A batch that is far off, of a run that was quiet before.
  class Spike final : public Task {
   public:
    explicit Spike(std::unique_ptr<Task> task) : task_(std::move(task)) {}
    torch::nn::Module& model() override { return task_->model(); }
    Score score(const data::Batch& batch) override {
      Score score = task_->score(batch);
      if (batch.epoch == 20 && std::find(batch.ids.begin(), batch.ids.end(), 35) != batch.ids.end()) {
        score.loss = score.loss * 1000;
      }
      return score;
    }

   private:
    std::unique_ptr<Task> task_;
  };
  const auto text = message_of(
      [&] {
        train(2, with(kInOrder, recipe), {}, kBlobs, nullptr,
              [](RecipeRun& run) { run.task = std::make_unique<Spike>(std::move(run.task)); });
      },
      Fault::Data);
  EXPECT_TRUE(has(text, "more than 5 times its median")) << text;
  EXPECT_TRUE(has(text, "in step 42 (epoch 20, samples 20 to 39 of its order); rank 1")) << text;
  EXPECT_TRUE(has(text, "most of it in layers.")) << text;
}

TEST_F(Callbacks, GuardLeavesBadStepsOut) {
  for (const char* exact : {"exact=false", "exact=true"}) {
    const Settings recipe = with(kInOrder, {exact, "steps=20", "callbacks.guard.on_spike=skip"});
    // Steps 3, 10 and 17 hold it: seven steps are an epoch.
    const auto outcome = train(2, recipe, {}, kBlobs, nullptr, poison(53, kNan));
    EXPECT_EQ(outcome.result.skipped, 3);
    EXPECT_TRUE(std::isfinite(outcome.result.loss));
    EXPECT_TRUE(std::isfinite(outcome.result.evaluations[0].figures[0].second));
  }
}

TEST_F(Callbacks, GuardIsExactOverRanksAndRestarts) {
  const Settings recipe = with(kInOrder, {"steps=20", "callbacks.guard.on_spike=skip"});
  const auto outcome = survives(recipe, 11, poison(53, kNan));
  EXPECT_EQ(outcome.result.skipped, 3);
  for (const int ranks : {1, 3, 8}) {
    EXPECT_EQ(train(ranks, recipe, {}, kBlobs, nullptr, poison(53, kNan)).hash, outcome.hash) << ranks;
  }
  EXPECT_NE(train(2, recipe).hash, outcome.hash);
}

// Running statistics too would stay spoilt for ever.
TEST_F(Callbacks, GuardSparesBatchNorms) {
  const std::string recipe = R"(
steps = 4
batch = 8
[data]
order = "sequential"
train = "images:samples=16,size=8,channels=3,classes=3"
transforms = ["normalise image"]
[model]
name = "resnet18"
[callbacks.guard]
on_spike = "skip"
)";
  /// Forward with inputs that are no numbers.
  class Spoils final : public Task {
   public:
    explicit Spoils(std::unique_ptr<Task> task) : task_(std::move(task)) {}
    torch::nn::Module& model() override { return task_->model(); }
    Score score(const data::Batch& batch) override {
      data::Batch spoilt = batch;
      if (batch.epoch == 0 && batch.position == 8) spoilt.tensors[0] = spoilt.tensors[0] * kNan;
      return task_->score(spoilt);
    }

   private:
    std::unique_ptr<Task> task_;
  };
  for (const char* exact : {"exact=false", "exact=true"}) {
    std::vector<std::string> spoilt;
    Task* task = nullptr;
    const auto outcome = train(1, {exact, "shards=2"}, {}, recipe, nullptr, [&](RecipeRun& run) {
      run.task = std::make_unique<Spoils>(std::move(run.task));
      task = run.task.get();
      class Looks final : public Callback {
       public:
        Looks(Task& of, std::vector<std::string>& into) : of_(of), into_(into) {}
        std::string name() const override { return "looks"; }
        void on_step(const StepReport&) override {
          for (const auto& [name, tensor] : parallel::buffers_of(of_.model())) {
            if (!std::isfinite(tensor.to(at::kDouble).sum().item<double>())) into_.push_back(name);
          }
        }

       private:
        Task& of_;
        std::vector<std::string>& into_;
      };
      run.settings.callbacks.push_back(std::make_shared<Looks>(*task, spoilt));
    });
    EXPECT_EQ(outcome.result.skipped, 1) << exact;
    EXPECT_TRUE(spoilt.empty()) << exact << ": " << spoilt.size() << " such as " << spoilt.front();
  }
}

TEST_F(Callbacks, GuardGivesUpInTheEnd) {
  const auto text = message_of(
      [] {
        train(2, with(kInOrder, {"batch=130", "steps=20", "callbacks.guard={on_spike='skip', most_in_a_row=3}"}), {},
              kBlobs, nullptr, poison(53, kNan));
      },
      Fault::Data);
  EXPECT_TRUE(has(text, "after 3 skipped steps in a row the loss is not finite in step 4")) << text;
}

}  // namespace
}  // namespace lockstep::train
