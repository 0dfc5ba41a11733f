// Runs that stop and go on: what checkpoints hold, which are kept, and what is done about bad ones.
#include "lockstep/train/checkpoint.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/testing.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/train/checkpoint_saver.h"
#include "lockstep/train/result_so_far.h"
#include "lockstep/train/stop_request.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::kBlobs;
using testing::kTokens;
using testing::message_of;
using testing::refusal;
using testing::train;
using Steps = std::vector<std::int64_t>;

// Clouds elsewhere: the better a model knows the others, the worse is it here.
constexpr const char kOtherBlobs[] = "data.validation='blobs:samples=50,dims=6,classes=3,seed=9'";

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

class Checkpoints : public ::testing::Test {
 protected:
  CheckpointSettings settings(bool resume, std::int64_t every = 4) const {
    return {.folder = folder_.path(), .every_steps = every, .resume = resume};
  }

  const test::TemporaryFolder folder_;
};

TEST_F(Checkpoints, LetARunGoOnWithOtherRanks) {
  const auto whole = train(2, {});
  // Step 9 lies in mid epoch (7 steps of 20 from 130 samples); the schedule must know of all 12.
  for (const auto& [before, after] : {std::pair(1, 3), std::pair(4, 1), std::pair(3, 8)}) {
    fs::remove_all(folder_.path());
    train(before, {}, settings(false, 9));
    // As if it had been killed after step 9.
    fs::remove_all(folder_.path() + "/0000000012");
    const auto resumed = train(after, {}, settings(true));
    EXPECT_EQ(resumed.hash, whole.hash) << before << " then " << after;
    EXPECT_EQ(resumed.result.loss, whole.result.loss);
  }
}

TEST_F(Checkpoints, AreTheSameForAFusedStep) {
  const auto whole = train(2, {});
  for (const bool fused_first : {true, false}) {
    fs::remove_all(folder_.path());
    train(3, {fused_first ? "fuse_step=true" : "fuse_step=false"}, settings(false, 9));
    fs::remove_all(folder_.path() + "/0000000012");
    const auto resumed = train(2, {fused_first ? "fuse_step=false" : "fuse_step=true"}, settings(true));
    EXPECT_EQ(resumed.hash, whole.hash) << fused_first;
  }
}

// Where each rank remembers its own elements, no rank ever has, or writes, those of others.
TEST_F(Checkpoints, OfAFusedStepHoldWhatEachRankOwns) {
  train(3, {"fuse_step=true"}, settings(false, 12));
  std::int64_t parts = 0;
  const auto manifest = nlohmann::json::parse(read_whole(folder_.path() + "/0000000012/manifest.json"));
  for (const auto& part : manifest.at("parts")) {
    const auto of_file = part.value("parts", nlohmann::json::object());
    for (const auto& [name, noted] : of_file.items()) {
      EXPECT_TRUE(name.starts_with("optimizer/") && noted.contains("first")) << name;
      ++parts;
    }
  }
  EXPECT_GE(parts, 6);  // two states on each rank
}

TEST_F(Checkpoints, HoldPartsOfSeveralWindows) {
  const CheckpointFolder folder(folder_.path());
  const at::Tensor whole = at::arange(12, at::kFloat).view({3, 4});
  const parallel::ParameterPart all({3, 4});
  std::vector<nlohmann::json> entries;
  for (const auto& [writer, windows] : {std::pair(0, std::vector<parallel::Window>{{0, 3}, {6, 2}}),
                                        std::pair(1, std::vector<parallel::Window>{{3, 3}, {8, 4}})}) {
    const auto part = all.within_all(windows);
    at::Tensor mine = at::empty(part.shape(), at::kFloat);
    for (const auto& run : part.runs()) {
      mine.narrow(0, run.of_part, run.count).copy_(whole.view(-1).narrow(0, run.of_whole, run.count));
    }
    entries.push_back(folder.write_part(1, writer, {{"exp_avg/w", mine}}, {{"exp_avg/w", part}},
                                        [](const parallel::Parameter& one) { return one.tensor; }));
  }
  folder.complete(1, {}, entries);
  EXPECT_TRUE(at::equal(folder.read(1).tensors.read("exp_avg/w"), whole));
}

TEST_F(Checkpoints, HoldNoPartTwice) {
  const CheckpointFolder folder(folder_.path());
  const at::Tensor whole = at::arange(12, at::kFloat).view({3, 4});
  const auto half = [&](int index) { return parallel::ParameterPart({3, 4}, {.dim = 1, .index = index, .count = 2}); };
  const auto save = [&](std::int64_t step, const std::vector<int>& halves) {
    std::vector<nlohmann::json> entries;
    for (const int index : halves) {
      const auto writer = static_cast<int>(entries.size());
      entries.push_back(folder.write_part(step, writer, {{"w", whole.narrow(1, 2 * index, 2).contiguous()}},
                                          {{"w", half(index)}},
                                          [](const parallel::Parameter& one) { return one.tensor; }));
    }
    folder.complete(step, {}, entries);
    return folder.read(step).tensors;
  };
  EXPECT_TRUE(at::equal(save(1, {0, 1, 1}).read("w"), whole));
  // As many elements as it has, but not all of them.
  const auto twice = save(2, {0, 0});
  EXPECT_SAYS(message_of([&] { (void)twice.read("w"); }, Fault::Data), "the checkpoint holds 6 of 12 elements of 'w'");
}

TEST_F(Checkpoints, TakeNoMoreMemoryThanTheyMay) {
  const auto whole = train(2, {});
  for (const std::int64_t bytes : {0, 150, 1 << 20}) {
    fs::remove_all(folder_.path());
    auto bounded = settings(false, 3);
    bounded.staging_bytes = bytes;
    bounded.keep_last = 4;
    const auto result = train(2, {}, bounded).result;
    const std::int64_t staged = result.memory.use.staging;
    EXPECT_LE(staged, bytes);
    EXPECT_EQ(staged > 0, bytes > 0);
    fs::remove_all(folder_.path() + "/0000000012");
    EXPECT_EQ(train(3, {}, settings(true)).hash, whole.hash) << bytes;
  }
  auto wrong = settings(false);
  wrong.staging_bytes = -1;
  EXPECT_SAYS(message_of([&] { train(1, {}, wrong); }), "checkpoints.staging_bytes = -1");
}

TEST_F(Checkpoints, AreOfWhatWasThereWhenTheyBegan) {
  const std::int64_t large = 1 << 20;
  comm::testing::on_ranks({2}, [&](comm::Communicator& group) {
    auto settings = this->settings(false);
    settings.staging_bytes = 1 << 10;
    CheckpointSaver saver(settings, group, group);
    group.barrier();  // rank 0 clears the folder first
    const at::Tensor small = at::ones({10}), first = at::ones({large}), second = at::ones({large});
    parallel::AllocationMeter meter;
    saver.begin({1, {}, {{"first", first}, {"small", small}, {"second", second}}, {}, {}, {}});
    EXPECT_LT(meter.peak_bytes(), large);
    for (at::Tensor tensor : {small, first, second}) tensor.zero_();
    EXPECT_TRUE(saver.finish());
  });
  const auto tensors = CheckpointFolder(folder_.path()).newest()->tensors;
  for (const auto& name : {"small", "first", "second"}) {
    EXPECT_EQ(tensors.read(name).min().item<double>(), 1) << name;
  }
}

TEST_F(Checkpoints, LetLocalStepsGoOn) {
  for (const std::string states : {"true", "false"}) {
    const std::vector<std::string> run = {"exact=false", "local_steps=4", "average_states=" + states};
    fs::remove_all(folder_.path());
    const auto whole = train(3, run, settings(false, 6));  // between two averages
    fs::remove_all(folder_.path() + "/0000000012");
    EXPECT_EQ(train(3, run, settings(true, 6)).hash, whole.hash);
    fs::remove_all(folder_.path() + "/0000000012");
    EXPECT_EQ(train(2, run, settings(true, 6)).result.steps, 12);
  }
}

TEST_F(Checkpoints, HoldWhatIsRememberedOfRows) {
  const std::vector<std::string> run = {"model.name=lstm", "model.hidden=8", "model.sparse_embedding=true",
                                        "optimizer.name=adam", "optimizer.lr=0.01"};
  const auto whole = train(3, run, settings(false, 5), kTokens);
  fs::remove_all(folder_.path() + "/0000000012");
  EXPECT_EQ(train(3, run, settings(true, 5), kTokens).hash, whole.hash);
}

TEST_F(Checkpoints, HoldTheLossScale) {
  // Until step 9 some steps are skipped, so that the optimiser has taken fewer than the schedule.
  const std::vector<std::string> half = {"precision=fp16", "loss_scale.start=4194304", "loss_scale.grow_after=3"};
  const auto whole = train(2, half);
  EXPECT_GT(whole.result.skipped, 0);
  EXPECT_LT(whole.result.skipped, 9);
  train(1, half, settings(false, 9));
  fs::remove_all(folder_.path() + "/0000000012");
  const auto facts = CheckpointFolder(folder_.path()).newest()->facts;
  EXPECT_LT(facts.at("optimizer_steps").get<int>(), 9);
  const auto resumed = train(3, half, settings(true));
  EXPECT_EQ(resumed.hash, whole.hash);
  EXPECT_EQ(resumed.result.loss, whole.result.loss);
}

/// The rates of a run.
class Rates final : public Observer {
 public:
  void on_step(const StepReport& report) override { lr.push_back(report.lr); }
  std::vector<double> lr;
};

TEST_F(Checkpoints, OfAnotherScheduleLetThisOneBegin) {
  const std::vector<std::string> plateau = {"schedule.name=plateau", "schedule.patience=0",
                                            "data.validation='blobs:samples=50,dims=6,classes=3'"};
  train(2, {}, settings(false, 9));
  fs::remove_all(folder_.path() + "/0000000012");
  const auto rates = std::make_shared<Rates>();
  train(2, plateau, settings(true, 9), kBlobs, rates);
  EXPECT_EQ(rates->lr, (std::vector<double>{0.01, 0.01, 0.01}));
  EXPECT_NE(refusal(1, {"schedule.name=plateau"}).find("set data.validation"), std::string::npos);
}

TEST_F(Checkpoints, OfAnotherOptimizerLetThisOneBegin) {
  train(2, {"optimizer.name=adam", "optimizer.lr=0.01"}, settings(false, 9));
  fs::remove_all(folder_.path() + "/0000000012");
  // The names of what they remember are the same.
  ::testing::internal::CaptureStderr();
  train(2, {"optimizer.name=adamw", "optimizer.lr=0.01"}, settings(true, 9));
  EXPECT_SAYS(::testing::internal::GetCapturedStderr(), "optimizer.name = \"adam\", now it is \"adamw\"");
  const auto facts = CheckpointFolder(folder_.path()).newest()->facts;
  EXPECT_EQ(facts.at("step"), 12);
  EXPECT_EQ(facts.at("optimizer_steps"), 3);
  fs::remove_all(folder_.path() + "/0000000012");
  EXPECT_NO_THROW(train(1, {"optimizer.name=sgd", "optimizer.momentum=0.9"}, settings(true, 9)));
}

TEST_F(Checkpoints, AreBestByAFigureThatThereIs) {
  auto wrong = settings(false);
  wrong.best_by = "acuracy";
  EXPECT_SAYS(message_of([&] { train(2, {kOtherBlobs}, wrong); }), "checkpoints.best_by = \"acuracy\"");
  EXPECT_SAYS(message_of([&] { train(2, {kOtherBlobs}, wrong); }), "did you mean 'accuracy'");
  EXPECT_TRUE(CheckpointFolder(folder_.path()).steps().empty());
  EXPECT_NO_THROW(train(2, {}, wrong));  // nothing is validated
}

TEST_F(Checkpoints, AreKeptByNumber) {
  train(2, {"steps=12"}, settings(false, 2));
  EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
}

std::int64_t step_of_lowest_loss(const RunResult& result) {
  std::pair<double, std::int64_t> best(INFINITY, 0);
  for (const auto& evaluation : result.evaluations) {
    if (evaluation.of == "validation") best = std::min(best, {evaluation.figures[0].second, evaluation.step});
  }
  return best.second;
}

TEST_F(Checkpoints, TheBestIsKeptBesideTheLast) {
  // 7 steps an epoch.
  for (const std::int64_t every : {0, 4}) {
    fs::remove_all(folder_.path());
    const auto first = train(2, {"steps=28", kOtherBlobs}, settings(false, every)).result;
    const std::int64_t best = step_of_lowest_loss(first);
    ASSERT_LT(best, 21);
    EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (every == 0 ? Steps{best, 21, 28} : Steps{best, 24, 28}));
    EXPECT_EQ(best_step(CheckpointFolder(folder_.path()), "loss"), best);
    // Another process knows of it.
    const auto rest = train(3, {"steps=56", kOtherBlobs}, settings(true, every)).result;
    ASSERT_EQ(step_of_lowest_loss(rest), best);
    EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (every == 0 ? Steps{best, 49, 56} : Steps{best, 52, 56}));
    EXPECT_EQ(best_step(CheckpointFolder(folder_.path()), "loss"), best);
    EXPECT_FALSE(best_step(CheckpointFolder(folder_.path()), "bleu"));
  }
}

TEST_F(Checkpoints, AreKeptByAnotherFigureAfterAResumption) {
  auto now = settings(false, 0);
  train(2, {"steps=14", kOtherBlobs}, now);
  now.resume = true;
  now.best_by = "f1";  // which the validations before do not have
  const auto result = train(2, {"steps=28", kOtherBlobs, "metrics=['f1']"}, now).result;
  const auto kept = CheckpointFolder(folder_.path()).steps();
  EXPECT_GT(kept.front(), 14);
  EXPECT_EQ(kept.back(), 28);
  EXPECT_EQ(result.evaluations.size(), 5U);  // four validations and a test
}

TEST_F(Checkpoints, ThatAreSpoiltAreNotTheLast) {
  train(2, {}, settings(false, 5));
  ASSERT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
  fs::resize_file(folder_.path() + "/0000000012/part-00001.safetensors", 100);
  auto keep_one = settings(true, 5);
  keep_one.keep_last = 1;
  train(2, {"steps=11"}, keep_one);
  EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), Steps{11});
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 11);
}

void expect_same(const RunResult& one, const RunResult& other) {
  EXPECT_EQ(one.steps, other.steps);
  EXPECT_EQ(one.skipped, other.skipped);
  EXPECT_EQ(one.loss, other.loss);
  ASSERT_EQ(one.evaluations.size(), other.evaluations.size());
  for (std::size_t i = 0; i < one.evaluations.size(); ++i) {
    EXPECT_EQ(one.evaluations[i].of, other.evaluations[i].of);
    EXPECT_EQ(one.evaluations[i].step, other.evaluations[i].step);
    EXPECT_EQ(one.evaluations[i].epoch, other.evaluations[i].epoch);
    EXPECT_EQ(one.evaluations[i].samples, other.evaluations[i].samples);
    EXPECT_EQ(one.evaluations[i].figures, other.evaluations[i].figures);
  }
}

TEST_F(Checkpoints, HoldTheResultSoFar) {
  const std::vector<std::string> run = {"steps=30", kOtherBlobs, "precision=fp16", "loss_scale.start=4194304"};
  const auto keep_all = [this](bool resume) {
    auto all = settings(resume, 16);
    all.keep_last = 100;
    return all;
  };
  const auto whole = train(2, run, keep_all(false)).result;
  EXPECT_GT(whole.skipped, 0);
  EXPECT_EQ(whole.evaluations.size(), 5U);
  for (const std::int64_t step : CheckpointFolder(folder_.path()).steps()) {
    if (step > 16) CheckpointFolder(folder_.path()).remove(step);
  }
  const auto resumed = train(3, run, keep_all(true)).result;
  expect_same(resumed, whole);
  EXPECT_GT(resumed.seconds, 0);
  EXPECT_GE(resumed.imbalance, 1);
  // Nothing is left to do, and everything still to tell.
  const auto again = train(2, run, keep_all(true)).result;
  expect_same(again, whole);
  EXPECT_NEAR(again.imbalance, resumed.imbalance, 1e-9);
  EXPECT_EQ(again.seconds, noted_result(CheckpointFolder(folder_.path()).facts(30)).seconds);
}

// Of 130 samples 4 epochs are wanted; 1 is done in steps of 20, and 20 samples of the next.
TEST_F(Checkpoints, LetEpochsGoOnWithAnotherBatch) {
  const std::vector<std::string> epochs = {"steps=0", "epochs=4", kOtherBlobs};
  auto first = epochs;
  first[0] = "steps=8";
  for (const auto& [batch, steps] :
       {std::pair("batch=20", 28), std::pair("batch=40", 8 + 3 + 2 * 4), std::pair("batch=7", 8 + 16 + 2 * 19)}) {
    fs::remove_all(folder_.path());
    train(2, first, settings(false));
    auto rest = epochs;
    rest.emplace_back(batch);
    rest.insert(rest.end(), {"schedule.name=step", "schedule.gamma=0.5"});
    const auto rates = std::make_shared<Rates>();
    const auto result = train(3, rest, settings(true), kBlobs, rates).result;
    // An epoch and a bit were done before: the others have a rate each, however many steps they take.
    EXPECT_EQ(rates->lr.front(), 0.01 / 2) << batch;
    EXPECT_EQ(rates->lr.back(), 0.01 / 8) << batch;
    const auto of_third = std::count(rates->lr.begin(), rates->lr.end(), 0.01 / 4);
    EXPECT_EQ(of_third, std::count(rates->lr.begin(), rates->lr.end(), 0.01 / 8)) << batch;
    EXPECT_EQ(result.steps, steps) << batch;
    ASSERT_EQ(result.evaluations.size(), 5U) << batch;
    for (std::int64_t epoch = 1; epoch <= 4; ++epoch) {
      EXPECT_EQ(result.evaluations[static_cast<std::size_t>(epoch - 1)].epoch, epoch) << batch;
    }
    EXPECT_EQ(result.evaluations[4].of, "test");
  }
}

TEST_F(Checkpoints, OfARunWithoutEndStopAndGoOn) {
  const std::vector<std::string> for_ever = {"steps=0", "epochs=9223372036854775807"};
  const auto stopped = train(2, for_ever, settings(false), kBlobs, std::make_shared<StopAfter>(9)).result;
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(train(2, for_ever, settings(true), kBlobs, std::make_shared<StopAfter>(19)).result.steps, 20);
}

TEST_F(Checkpoints, AreOfTheirData) {
  train(2, {"steps=9"}, settings(false));
  const auto message = [this](const std::string& setting) -> std::string {
    try {
      train(2, {setting}, settings(true));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage) << error.message();
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message("data.train='blobs:samples=120,dims=6,classes=3'").find("count of samples was 130 and is 120 now"),
            std::string::npos);
  EXPECT_NE(message("seed=1").find("its seed was 0 and is 1 now"), std::string::npos);
  EXPECT_NE(message("data.order=sequential").find("data.order was \"shuffle\""), std::string::npos);
  EXPECT_EQ(message("batch=10"), "");  // it is the samples that count
}

TEST_F(Checkpoints, ThatAreSpoiltArePassedOver) {
  const auto whole = train(2, {});
  train(2, {}, settings(false, 5));
  ASSERT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
  const auto spoil = [this](const char* file, std::streamoff place) {
    std::fstream out(folder_.path() + file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(place);
    out.put('!');
  };
  spoil("/0000000012/part-00001.safetensors", 300);
  EXPECT_THROW(CheckpointFolder(folder_.path()).read(12), Error);
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 10);
  EXPECT_EQ(train(3, {}, settings(true, 5)).hash, whole.hash);

  spoil("/0000000012/manifest.json", 0);
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 10);
  fs::remove(folder_.path() + "/0000000010/part-00000.safetensors");
  EXPECT_FALSE(CheckpointFolder(folder_.path()).newest());
}

TEST_F(Checkpoints, AreSpoiltByOneNumber) {
  train(1, {}, settings(false, 5));
  const std::string path = folder_.path() + "/0000000012/manifest.json";
  std::string manifest = read_whole(path);
  const std::string number = "\"optimizer_steps\": 12";
  ASSERT_NE(manifest.find(number), std::string::npos);
  manifest.replace(manifest.find(number), number.size(), "\"optimizer_steps\": 13");
  write_whole(path, manifest);
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 10);
}

// They may be whole: to begin anew would be to throw them away.
TEST_F(Checkpoints, ThatCannotBeReadNowAreNotPassedOver) {
  train(1, {}, settings(false, 5));
  const auto says = [this](Fault fault, const std::string& text) {
    const auto message = message_of([this] { train(2, {}, settings(true)); }, fault);
    EXPECT_SAYS(message, text);
    EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
  };
  const std::string part = folder_.path() + "/0000000012/part-00000.safetensors",
                    manifest = folder_.path() + "/0000000012/manifest.json";
  fs::rename(part, part + ".whole");
  fs::create_symlink(part, part);  // to itself
  says(Fault::Io, part);
  fs::rename(part + ".whole", part);
  std::string text = read_whole(manifest);
  text.replace(text.find("\"version\": "), 12, "\"version\": 1");
  write_whole(manifest, text);
  says(Fault::Usage, "is of another version of Lockstep");
}

/// What it remembers cannot be written as JSON.
class Unspeakable final : public Callback {
 public:
  std::string name() const override { return "unspeakable"; }
  nlohmann::json state() const override { return "\xff"; }
};

TEST_F(Checkpoints, ThatCannotBeWrittenAreNamed) {
  const auto add = [](RecipeRun& run) { run.settings.callbacks.push_back(std::make_shared<Unspeakable>()); };
  try {
    train(2, {}, settings(false), kBlobs, nullptr, add);
    FAIL() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Io) << error.message();
    EXPECT_NE(error.message().find("the last checkpoint, of step 12, is not written"), std::string::npos)
        << error.message();
  }
  EXPECT_TRUE(CheckpointFolder(folder_.path()).steps().empty());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Checkpoints, AreNoneWhereIsNoFolder) {
  const std::string path = folder_.path() + "/file";
  std::ofstream(path) << "a file";
  const CheckpointFolder none(path);
  EXPECT_TRUE(none.steps().empty());
  EXPECT_FALSE(none.newest());
  none.drop_unfinished();
  EXPECT_TRUE(fs::is_regular_file(path));
}

TEST_F(Checkpoints, OfAnotherRunAreLeftAlone) {
  train(2, {}, settings(false, 5));
  ASSERT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
  EXPECT_SAYS(message_of([this] { train(2, {"steps=4"}, settings(false, 2)); }, Fault::Usage),
              folder_.path() + " holds checkpoints up to step 12: set checkpoints.resume = true to go on");
  EXPECT_EQ(CheckpointFolder(folder_.path()).steps(), (Steps{10, 12}));
}

TEST_F(Checkpoints, UnfinishedAreNotSeen) {
  train(1, {}, settings(false, 5));
  fs::create_directory(folder_.path() + "/0000000099.new");
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 12);
  train(1, {"steps=13"}, settings(true, 5));
  EXPECT_FALSE(fs::exists(folder_.path() + "/0000000099.new"));
}

TEST_F(Checkpoints, AreMadeWhenARunIsAskedToStop) {
  const auto whole = train(2, {});
  const auto stopped = train(2, {}, settings(false, 1000), kBlobs, std::make_shared<StopAfter>(5));
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_EQ(stopped.result.steps, 6);  // the step after the one in which it was asked
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, 6);
  const auto resumed = train(4, {}, settings(true));
  EXPECT_FALSE(resumed.result.stopped);
  EXPECT_EQ(resumed.hash, whole.hash);
}

/// Asks the process to stop in the midst of an evaluation.
class StopIn final : public Metric {
 public:
  /// When it has judged so many shards.
  explicit StopIn(int shards) : shards_(shards) {}
  std::vector<std::string> names() const override { return {"none"}; }
  at::Tensor sums(const Score&) const override {
    if (++judged_ == shards_) (void)raise(SIGTERM);
    return at::zeros({1}, at::kDouble);
  }
  Figures figures(const at::Tensor&) const override { return {{"none", 0}}; }

 private:
  int shards_;
  mutable std::atomic<int> judged_ = 0;
};

TEST_F(Checkpoints, AreMadeWhenARunIsAskedToStopInAnEvaluation) {
  // The rate follows validations, after steps 7 and 14; a test is at the end. All are of 5 batches of 8 shards.
  const std::vector<std::string> run = {"steps=14", kOtherBlobs, "evaluation_batch=10", "schedule.name=plateau",
                                        "schedule.patience=0"};
  const auto with = [](int shards) {
    return [metric = std::make_shared<StopIn>(shards)](RecipeRun& made) { made.settings.metrics.push_back(metric); };
  };
  // The second validation is worse than the first and ends the run, if there were more steps to take.
  auto impatient = run;
  impatient.insert(impatient.end(), {"steps=21", "callbacks.early_stopping.patience=1"});
  for (const auto& [recipe, shards, step, evaluations] :
       {std::tuple(run, 20, 7, 0U), std::tuple(run, 60, 14, 1U), std::tuple(run, 100, 14, 2U),
        std::tuple(impatient, 60, 14, 1U)}) {
    const auto whole = train(1, recipe, {}, kBlobs, nullptr, with(-1));
    ASSERT_EQ(whole.result.steps, 14);
    fs::remove_all(folder_.path());
    const auto stopped = train(1, recipe, settings(false, 100), kBlobs, nullptr, with(shards)).result;
    EXPECT_TRUE(stopped.stopped) << shards;
    EXPECT_EQ(stopped.steps, step) << shards;
    EXPECT_EQ(stopped.evaluations.size(), evaluations) << shards;
    EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, step) << shards;
    const auto resumed = train(2, recipe, settings(true, 100), kBlobs, nullptr, with(-1));
    EXPECT_FALSE(resumed.result.stopped) << shards;
    EXPECT_EQ(resumed.hash, whole.hash) << shards;
    expect_same(resumed.result, whole.result);
  }
}

TEST_F(Checkpoints, AreNotMadeOfWeightsThatAreNotFinite) {
  // The loss of the first step is one, though its gradients end the weights.
  const auto message =
      message_of([this] { train(2, {"optimizer.name=sgd", "optimizer.lr=1e39"}, settings(false, 1)); }, Fault::Data);
  EXPECT_NE(message.find("weights are not finite after step 1"), std::string::npos) << message;
  EXPECT_FALSE(CheckpointFolder(folder_.path()).newest());
}

TEST(StopRequest, IsOneOfAllInTheProcess) {
  struct sigaction before{}, after{};
  sigaction(SIGUSR1, nullptr, &before);
  {
    const StopRequest first;
    EXPECT_FALSE(first.made());
    raise(SIGUSR1);
    const auto second = std::make_unique<StopRequest>();
    EXPECT_TRUE(second->made());
  }
  sigaction(SIGUSR1, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  EXPECT_FALSE(StopRequest().made());
}

TEST_F(Checkpoints, StopAtTheWallTime) {
  const auto stopped = train(2, {"wall_time_s=0.000001"}, settings(false));
  EXPECT_TRUE(stopped.result.stopped);
  EXPECT_EQ(CheckpointFolder(folder_.path()).newest()->step, stopped.result.steps);
}

}  // namespace
}  // namespace lockstep::train
