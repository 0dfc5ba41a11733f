// What recipes say: rates that follow the ranks, evaluations without chance, numbers that make no sense.
#include "lockstep/train/recipe.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;
using testing::kBlobs;
using testing::refusal;
using testing::train;

/// kBlobs, of which each rank has its own 5 samples.
std::string per_rank() {
  const std::string text = kBlobs, batch = "batch = 20";
  return std::string(text).replace(text.find(batch), batch.size(), "batch_per_rank = 5");
}

void with_run(int ranks, const std::vector<std::string>& settings, const std::string& text,
              const std::function<void(const RecipeRun&)>& look) {
  on_ranks({ranks}, [&](Communicator& group) {
    Config recipe = Config::from_text(text);
    for (const auto& setting : settings) recipe.set(setting);
    const auto run = make_run(recipe, group);
    if (group.rank() == 0) look(run);
  });
}

TEST(ScaledRate, DividesStepsByRanks) {
  for (const auto& [ranks, steps] : {std::pair(1, 12), std::pair(2, 6), std::pair(3, 4), std::pair(5, 3)}) {
    EXPECT_EQ(train(ranks, {"scale_lr=linear"}, {}, per_rank()).result.steps, steps) << ranks;
    EXPECT_EQ(train(ranks, {}, {}, per_rank()).result.steps, 12) << ranks;
  }
}

TEST(ScaledRate, GrowsWithRanks) {
  with_run(4, {"scale_lr=linear"}, per_rank(), [](const RecipeRun& run) {
    EXPECT_EQ(run.settings.batch, 20);
    EXPECT_DOUBLE_EQ(run.settings.lr, 0.04);
  });
  with_run(4, {"scale_lr=sqrt"}, per_rank(), [](const RecipeRun& run) { EXPECT_DOUBLE_EQ(run.settings.lr, 0.02); });
  with_run(4, {}, per_rank(), [](const RecipeRun& run) { EXPECT_DOUBLE_EQ(run.settings.lr, 0.01); });
}

TEST(ScaledRate, WarmsUpFromThatOfOneRank) {
  const auto factor = [](int ranks, std::vector<std::string> settings, std::int64_t step) {
    settings.emplace_back("scale_lr=linear");
    double result = 0;
    with_run(ranks, settings, per_rank(),
             [&](const RecipeRun& run) { result = run.settings.schedule({1000, 10})->factor(step); });
    return result;
  };
  // Five epochs.
  EXPECT_DOUBLE_EQ(factor(4, {}, 0), 0.25);
  EXPECT_DOUBLE_EQ(factor(4, {}, 25), 0.625);
  EXPECT_DOUBLE_EQ(factor(4, {}, 50), 1);
  // One rank has nothing to warm up to, and who asks is heard.
  EXPECT_EQ(factor(1, {}, 0), 1);
  EXPECT_EQ(factor(4, {"schedule.warmup_steps=0"}, 0), 1);
  EXPECT_DOUBLE_EQ(factor(4, {"schedule.warmup_epochs=1.0"}, 5), 0.625);
  EXPECT_DOUBLE_EQ(factor(4, {"schedule.warmup_start=0.5"}, 0), 0.5);
  // It rises by itself.
  EXPECT_NEAR(factor(4, {"schedule.name=one_cycle"}, 0), 0.04, 1e-12);
}

TEST(ScaledRate, NeedsABatchThatGrows) {
  for (const char* scale : {"scale_lr=linear", "scale_lr=sqrt"}) {
    EXPECT_SAYS(refusal(2, {scale}), "set batch_per_rank instead");
  }
}

constexpr const char kTable[] = R"(
steps = 3
batch = 4
[model]
hidden = [4]
[task]
classes = 3
)";

TEST(Tables, AreTrainedOn) {
  const test::TemporaryFolder folder;
  const std::string source =
      "data.train='" +
      folder.write("table.csv", "age,label,height,city\n31,0,1.8,Ulm\n25,1,1.7,Bonn\n40,2,1.9,Ulm\n22,1,1.6,Jena\n") +
      "'";
  EXPECT_SAYS(refusal(2, {source}, kTable), "or name other fields in task.inputs");
  EXPECT_SAYS(refusal(2, {source, "task.input=age", "task.inputs=['height']"}, kTable), "set one of them");
  with_run(1, {source, "task.inputs=['age', 'height']"}, kTable, [](const RecipeRun& run) {
    EXPECT_EQ(parallel::parameters_of(run.task->model())[0].tensor.sizes(), (std::vector<std::int64_t>{4, 2}));
  });
  for (const char* precision : {"precision=float32", "precision=float64"}) {
    EXPECT_EQ(train(2, {source, "task.inputs=['age', 'height']", precision}, {}, kTable).result.steps, 3);
    EXPECT_EQ(train(2, {source, "task.input=age", precision}, {}, kTable).result.steps, 3);
  }
  EXPECT_SAYS(refusal(1, {source, "task.inputs=['age']", "task.target=city"}, kTable), "is no number of a class");
  EXPECT_SAYS(refusal(1, {source, "task.inputs=['age', 'label']"}, kTable), "it cannot be an input, too");
  EXPECT_SAYS(refusal(1, {source, "task.inputs=['age']", "task.target=height"}, kTable, Fault::Data),
              "which is no class");
  const std::string far = "data.train='" + folder.write("far.csv", "age,label\n31,0\n25,1e30\n40,inf\n") + "'";
  EXPECT_SAYS(refusal(1, {far, "task.inputs=['age']"}, kTable, Fault::Data), "which is no class");
}

TEST(Order, SeesAllClassesEquallyOften) {
  with_run(2, {"data.order=balanced"}, kBlobs, [](const RecipeRun& run) {
    ASSERT_EQ(run.data.groups.size(), 3U);
    EXPECT_EQ(run.data.groups[0].size() + run.data.groups[1].size() + run.data.groups[2].size(), 130);
  });
  const auto alone = train(1, {"data.order=balanced"});
  EXPECT_EQ(train(3, {"data.order=balanced"}).hash, alone.hash);
  EXPECT_NE(train(1, {}).hash, alone.hash);
}

TEST(Evaluations, AreOfTheSameKindOfSamples) {
  EXPECT_SAYS(refusal(2, {"data.test='blobs:samples=50,dims=9,classes=3'"}),
              "data.test has samples of [9], and the model learns those of [6]");
}

TEST(Evaluations, MayBeOfAShareOfTheSamples) {
  with_run(2, {"data.validation_share=0.2"}, kBlobs, [](const RecipeRun& run) {
    EXPECT_EQ(run.data.train->size(), 104);
    EXPECT_EQ(run.data.validation->size(), 26);
    std::set<std::string> keys;
    for (const auto& set : {run.data.train, run.data.validation}) {
      for (std::int64_t i = 0; i < set->size(); ++i) keys.insert(set->key(i));
    }
    EXPECT_EQ(keys.size(), 130U);
  });
  EXPECT_SAYS(refusal(1, {"data.validation_share=0.2", "data.validation=blobs"}), "leave out data.validation");
  EXPECT_SAYS(refusal(1, {"data.validation_share=0.0001"}), "leaves none to it");
}

TEST(Evaluations, LeaveNothingToChance) {
  const std::string images = R"(
steps = 1
batch = 4
[data]
train = "images:samples=8,size=8,channels=1,classes=3"
transforms = ["crop image size=6 pad=1", "flip image", "normalise image"]
[model]
hidden = [4]
)";
  using Steps = std::vector<std::string>;
  with_run(1, {}, images, [](const RecipeRun& run) {
    EXPECT_EQ(run.data.evaluation_transforms, (Steps{"center_crop image size=6 pad=1", "normalise image"}));
    EXPECT_EQ(run.data.transforms, (Steps{"crop image size=6 pad=1", "flip image", "normalise image"}));
  });
  with_run(1, {"data.evaluation_transforms=['crop image size=6']"}, images,
           [](const RecipeRun& run) { EXPECT_EQ(run.data.evaluation_transforms, (Steps{"crop image size=6"})); });
}

TEST(Recipe, RefusesNumbersThatMakeNoSense) {
  const std::pair<const char*, const char*> wrong[] = {
      {"clip_norm=-1", "clip_norm = -1"},
      {"clip_value=-0.5", "clip_value = -0.5"},
      {"wall_time_s=-1", "wall_time_s = -1"},
      {"optimizer.lr=-0.1", "optimizer.lr = -0.1"},
      {"optimizer.lr=nan", "optimizer.lr = nan"},
      {"optimizer.weight_decay=-1", "optimizer.weight_decay = -1"},
      {"optimizer.eps=-1", "optimizer.eps = -1"},
      {"optimizer.eps=0", "optimizer.eps = 0: it is a number above 0"},
      {"optimizer.betas=[0.9, 1.0]", "optimizer.betas"},
      {"optimizer.groups.slow={lr_factor=0.1}", "set optimizer.groups.slow.names"},
      {"optimizer.groups.slow={names=['*.bias'], lr_factor=-1}", "optimizer.groups.slow.lr_factor = -1"},
      {"schedule.last=-0.1", "schedule.last = -0.1: it is a share from 0 to 1"},
      {"task.label_smoothing=1", "task.label_smoothing = 1: it is a share from 0 to below 1"},
      {"task.label_smoothing=-0.1", "task.label_smoothing = -0.1"},
      {"task.classes=-2", "task.classes = -2"},
      {"shards=4294967312", "shards = 4294967312: it is from 1 to 65536"},
      {"metrics=['top4']", "the metric top4: there are only 3 classes"},
      {"metrics=['top0']", "from 1 on"},
      {"metrics=['top']", "did you mean 'topK'"},
      {"metrics=['accuracy2']", "did you mean 'accuracy'"},
  };
  for (const auto& [setting, text] : wrong) EXPECT_SAYS(refusal(1, {setting}), text);
  EXPECT_SAYS(refusal(1, {"optimizer.name=sgd", "optimizer.momentum=1"}), "optimizer.momentum = 1");
  EXPECT_SAYS(refusal(1, {"optimizer.name=sgd", "optimizer.dampening=2"}), "optimizer.dampening = 2");
  EXPECT_SAYS(refusal(1, {"optimizer.name=rmsprop", "optimizer.alpha=1"}), "optimizer.alpha = 1");
  EXPECT_SAYS(refusal(1, {"optimizer.name=adagrad", "optimizer.lr_decay=-1"}), "optimizer.lr_decay = -1");
  EXPECT_SAYS(refusal(1, {"optimizer.name=lamb", "optimizer.eps=-1"}), "optimizer.eps = -1");
  EXPECT_SAYS(refusal(1, {"schedule.name=step", "schedule.gamma=-1"}), "schedule.gamma = -1");
  EXPECT_SAYS(refusal(1, {"schedule.name=plateau", "schedule.gamma=-1"}), "schedule.gamma = -1");
  EXPECT_SAYS(refusal(1, {"schedule.name=plateau", "schedule.patience=-1"}), "schedule.patience = -1");
  EXPECT_SAYS(refusal(1, {"schedule.name=one_cycle", "schedule.start=2"}), "schedule.start = 2");
  for (const char* setting : {"batch_per_rank=0", "batch_per_rank=-4"}) {
    EXPECT_SAYS(refusal(1, {setting}, per_rank()), "it is from 1 on");
  }
}

TEST(Recipe, NamesTheCountThatIsWrong) {
  EXPECT_EQ(refusal(1, {"steps=-5"}), "steps = -5: it is from 0 on");
  EXPECT_EQ(refusal(1, {"accumulate=0"}), "accumulate = 0: it is from 1 on");
  EXPECT_EQ(refusal(2, {"accumulate=0", "parallel.pipe=2"}, testing::kGpt), "accumulate = 0: it is from 1 on");
  EXPECT_EQ(refusal(2, {"accumulate=4294967297", "parallel.pipe=2"}, testing::kGpt),
            "accumulate = 4294967297: it is from 1 to 8, as a piece of the 8 samples of a batch has one at least");
  EXPECT_SAYS(refusal(1, {"accumulate=1000001", "batch=2000000"}), "it is from 1 to 1000000");
}

TEST(Recipe, SharesStatesOutOverAPartOfTheRanks) {
  for (const int together : {2, 4}) {
    with_run(4, {"parallel.zero=1", fmt::format("parallel.zero_ranks={}", together)}, testing::kGpt,
             [&](const RecipeRun& run) { EXPECT_EQ(run.facts.fuses(run.layout, false), together == 4); });
  }
  EXPECT_SAYS(refusal(4, {"parallel.zero=1", "parallel.zero_ranks=3"}, testing::kGpt), "set it to a divisor of 4");
}

TEST(Recipe, ChangesFromOneKeyToTheOther) {
  with_run(2, {"batch=0", "batch_per_rank=7"}, kBlobs, [](const RecipeRun& run) { EXPECT_EQ(run.settings.batch, 14); });
  with_run(2, {"batch_per_rank=0", "batch=12"}, per_rank(),
           [](const RecipeRun& run) { EXPECT_EQ(run.settings.batch, 12); });
  const auto factor = [](const std::vector<std::string>& settings) {
    double result = 0;
    with_run(1, settings, kBlobs, [&](const RecipeRun& run) { result = run.settings.schedule({1000, 10})->factor(5); });
    return result;
  };
  const std::string start = "schedule.warmup_start=0.0";
  EXPECT_DOUBLE_EQ(factor({start, "schedule.warmup_steps=50", "schedule.warmup_epochs=0.0"}), 0.1);
  EXPECT_DOUBLE_EQ(factor({start, "schedule.warmup_steps=0", "schedule.warmup_epochs=1.0"}), 0.5);
}

TEST(Recipe, RefusesTwoWarmUpsAndTooManyClasses) {
  EXPECT_SAYS(refusal(1, {"schedule.warmup_steps=2", "schedule.warmup_epochs=1"}), "set one of them");
  EXPECT_SAYS(refusal(1, {"task.classes=101", "metrics=['confusion']"}), "f1 of any number");
}

TEST(Recipe, RefusesCheckpointsOfWrongNumber) {
  for (const CheckpointSettings& wrong : {CheckpointSettings{.every_steps = -1}, CheckpointSettings{.keep_last = 0},
                                          CheckpointSettings{.keep_best = -1}}) {
    EXPECT_THROW(train(1, {}, wrong), Error);
  }
}

TEST(Recipe, NamesWhatIsOutOfRange) {
  constexpr const char kTokens[] = R"(
steps = 3
batch = 7
[data]
train = "tokens:samples=40,length=9,vocabulary=60"
[task]
name = "next_token"
vocabulary = 20
[model]
name = "lstm"
width = 8
hidden = 8
layers = 1
)";
  for (const int ranks : {1, 2}) {
    const std::string tokens = refusal(ranks, {}, kTokens, Fault::Data);
    EXPECT_SAYS(tokens, "sample ");
    EXPECT_SAYS(tokens, " has the token ");
    EXPECT_SAYS(tokens, "task.vocabulary = 20: set it to at least ");
    const std::string classes = refusal(ranks, {"task.classes=2"}, kBlobs, Fault::Data);
    EXPECT_SAYS(classes, " has the class 2, but task.classes = 2: set it to at least 3");
  }
}

}  // namespace
}  // namespace lockstep::train
