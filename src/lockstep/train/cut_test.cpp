// Models that are cut over ranks learn what one process learns that passes the same pieces of
// each batch one after another.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/train/cut_cases.h"
#include "lockstep/train/resumption.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

using testing::expect_same;
using testing::kRecipes;
using testing::Layout;
using testing::layout_named;
using testing::Learned;

class Losses final : public Observer {
 public:
  void on_step(const StepReport& report) override { all.push_back(report.loss); }
  std::vector<double> all;
};

Learned learn(const std::string& recipe, int ranks, std::vector<std::string> settings,
              CheckpointSettings checkpoints = {}, const std::function<void(RecipeRun&)>& look = nullptr) {
  settings.insert(settings.begin(), "precision=float64");
  if (recipe.find("parallel =") == std::string::npos) settings.insert(settings.begin(), "parallel.unit_bytes=0");
  const test::TemporaryFolder folder;
  if (checkpoints.folder.empty()) checkpoints = {.folder = folder.path(), .every_steps = 100};
  const auto losses = std::make_shared<Losses>();
  const auto outcome = testing::train(ranks, settings, checkpoints, recipe, losses, look);
  return {losses->all, testing::saved_weights(checkpoints.folder), outcome.result.evaluations.at(0).figures};
}

void expect_same_figures(const Learned& one, const Learned& other, const std::string& what) {
  ASSERT_EQ(one.figures.size(), other.figures.size());
  for (std::size_t i = 0; i < one.figures.size(); ++i) {
    EXPECT_NEAR(one.figures[i].second, other.figures[i].second, 1e-9) << what << ", " << one.figures[i].first;
  }
}

/// A recipe, and what is set over it.
struct Variant {
  std::string recipe;
  std::vector<std::string> settings = {};
};
const std::map<std::string, Variant> kVariants = {
    {"gpt", {"gpt"}},
    {"mlp", {"mlp"}},
    {"mlp_few", {"mlp", {"batch=7"}}},
    {"mnist_cnn", {"mnist_cnn"}},
    {"resnet18", {"resnet18"}},
    // The last batch of an epoch is of one sample.
    {"gpt_one_left", {"gpt", {"data.train=tokens:samples=43,length=9,vocabulary=61"}}},
    {"gpt_rotary",
     {"gpt", {"model.positions=rotary", "model.activation=swiglu", "model.hidden=21", "model.tied=false"}}}};

/// With activations that are cut along time, which only some models can be.
std::vector<Layout> layouts_over_time() {
  std::vector<Layout> all;
  const auto add = [&all](const std::string& name, int ranks, std::vector<std::string> settings, int pieces) {
    settings.insert(settings.end(), {"parallel.tensor=2", "parallel.sequence=true"});
    all.push_back({name, ranks, settings, pieces});
  };
  add("sequence2", 2, {}, 1);
  add("sequence2_full", 2, {"recompute=full"}, 1);
  add("sequence2_data2", 4, {}, 2);
  for (const int zero : {1, 2, 3}) {
    add(fmt::format("zero{}_sequence2_data2", zero), 4, {fmt::format("parallel.zero={}", zero)}, 2);
  }
  // Ranks of the tensor axis have unlike numbers of words, and so different units, but for what they sum.
  add("zero3_sequence2_data2_large_units", 4, {"parallel.zero=3", "parallel.unit_bytes=6150"}, 2);
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    add("pipe2_sequence2_" + (schedule == "1f1b" ? "one_f_one_b" : schedule), 4,
        {"parallel.pipe=2", "parallel.schedule=" + schedule, "accumulate=2"}, 2);
  }
  const std::string late = "parallel.schedule=zero_bubble";
  add("zero3_pipe2_sequence2_data2", 8,
      {"parallel.zero=3", "parallel.pipe=2", late, "accumulate=2", "recompute=selective"}, 4);
  return all;
}

/// With more micro-batches than samples: which of them are empty differs between ranks of the data axis.
std::vector<Layout> layouts_with_empty_pieces() {
  std::vector<Layout> all;
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::string schedule : {"1f1b", "zero_bubble"}) {
      all.push_back(
          {fmt::format("zero{}_pipe2_data2_{}", zero, schedule == "1f1b" ? "one_f_one_b" : schedule),
           4,
           {fmt::format("parallel.zero={}", zero), "parallel.pipe=2", "parallel.schedule=" + schedule, "accumulate=4"},
           7});  // as many as samples
    }
  }
  return all;
}

/// That keep less for backward, which changes no bit.
std::vector<Layout> layouts_to_remake() {
  return {{"one", 1, {"accumulate=2"}, 2},
          {"tensor2", 2, {"parallel.tensor=2"}, 1},
          {"sequence2", 2, {"parallel.tensor=2", "parallel.sequence=true"}, 1},
          {"zero3_data2", 2, {"parallel.zero=3"}, 2},
          {"pipe2_zero_bubble", 2, {"parallel.pipe=2", "parallel.schedule=zero_bubble", "accumulate=4"}, 4}};
}

class Cut : public ::testing::TestWithParam<std::tuple<std::string, Layout>> {};

std::string name_of(const ::testing::TestParamInfo<Cut::ParamType>& test) {
  return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
}

INSTANTIATE_TEST_SUITE_P(Models, Cut,
                         ::testing::Combine(::testing::Values("gpt", "mlp", "resnet18"),
                                            ::testing::ValuesIn(testing::layouts())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Full, Cut,
                         ::testing::Combine(::testing::Values("gpt", "mlp", "resnet18"),
                                            ::testing::ValuesIn(testing::layouts(true))),
                         name_of);
/// What differs from gpt does so in every layout alike.
INSTANTIATE_TEST_SUITE_P(Successors, Cut,
                         ::testing::Combine(::testing::Values("gpt_rotary"),
                                            ::testing::Values(layout_named("data2"), layout_named("tensor2"),
                                                              layout_named("pipe2_one_f_one_b"),
                                                              layout_named("pipe2_tensor2_data2_one_f_one_b"))),
                         name_of);

/// Its dropouts see images and what is split behind them.
INSTANTIATE_TEST_SUITE_P(Images, Cut,
                         ::testing::Combine(::testing::Values("mnist_cnn"),
                                            ::testing::Values(layout_named("tensor2"), layout_named("zero3_data2"),
                                                              layout_named("pipe2_one_f_one_b"),
                                                              layout_named("pipe2_tensor2_data2_one_f_one_b"))),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Uneven, Cut,
                         ::testing::Combine(::testing::Values("gpt", "gpt_one_left", "mlp_few"),
                                            ::testing::ValuesIn(layouts_with_empty_pieces())),
                         name_of);

INSTANTIATE_TEST_SUITE_P(OverTime, Cut,
                         ::testing::Combine(::testing::Values("gpt", "gpt_rotary"),
                                            ::testing::ValuesIn(layouts_over_time())),
                         name_of);

TEST_P(Cut, LearnsAsOneProcess) {
  const auto& [model, layout] = GetParam();
  const auto learn_with = [&variant = kVariants.at(model)](int ranks, std::vector<std::string> settings) {
    settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
    return learn(kRecipes.at(variant.recipe), ranks, settings);
  };
  const Learned whole = learn_with(1, {fmt::format("accumulate={}", layout.pieces)});
  const Learned cut = learn_with(layout.ranks, layout.settings);
  expect_same(cut, whole, layout.name);
  // Running statistics of batch norms are those of the first rank's samples.
  if (model != "resnet18" || !layout.shares_samples()) expect_same_figures(cut, whole, layout.name);
}

/// Of micro-batches of which a rank of the data axis has no samples, and of one of which none has any.
TEST(SyncBatchNorm, MeetsInEveryMicroBatchThatARankHas) {
  for (const std::string schedule : {"1f1b", "zero_bubble"}) {
    const std::vector<std::string> synced{"sync_batch_norm=true", "accumulate=2", "batch=3",
                                          "data.train=images:samples=13,size=16,classes=3",
                                          "parallel.schedule=" + schedule};
    const std::string& recipe = kRecipes.at("resnet18");
    const Learned whole = learn(recipe, 2, synced);
    for (const std::string cuts : {"[0, 5]", "[0, 9]"}) {  // the last link, the head, has none
      auto staged = synced;
      staged.insert(staged.end(), {"parallel.pipe=2", "parallel.cuts=" + cuts});
      expect_same(learn(recipe, 4, staged), whole, schedule + cuts);
    }
  }
}

TEST(Cuts, NameTheSampleThatIsOutOfRange) {
  const auto message = [](int ranks, std::vector<std::string> settings) {
    settings.insert(settings.end(), {"task.vocabulary=20", "accumulate=2"});
    const std::string all = testing::refusal(ranks, settings, kRecipes.at("gpt"), Fault::Data);
    const auto begin = all.find("sample ");
    return begin == std::string::npos ? all : all.substr(begin, all.find("task.vocabulary = 20") - begin);
  };
  const std::string alone = message(1, {});
  EXPECT_SAYS(alone, " has the token ");
  EXPECT_EQ(message(2, {"parallel.tensor=2"}), alone);
  EXPECT_EQ(message(2, {"parallel.tensor=2", "parallel.sequence=true"}), alone);
  EXPECT_EQ(message(2, {"parallel.pipe=2"}), alone);
}

/// What is offloaded, by a layout that it is compared with.
struct Offloading {
  std::string layout, what;
};
class Offloaded : public ::testing::TestWithParam<Offloading> {
 protected:
  Layout layout() const {
    if (GetParam().layout == "one") return {"one", 1, {"parallel.zero=3"}, 1};
    return layout_named(GetParam().layout);
  }
  std::vector<std::string> settings(bool offloads, int steps) const {
    auto all = layout().settings;
    all.push_back(fmt::format("steps={}", steps));
    all.emplace_back("check_every_steps=7");
    if (!offloads) return all;
    all.push_back("parallel.offload=" + GetParam().what);
    all.push_back(fmt::format("parallel.offload_folder=\"{}\"", disk_.path()));
    return all;
  }
  const test::TemporaryFolder disk_;
};
INSTANTIATE_TEST_SUITE_P(
    Layouts, Offloaded,
    ::testing::Values(Offloading{"one", "optimizer"}, Offloading{"one", "all"}, Offloading{"zero1_data2", "optimizer"},
                      Offloading{"zero2_data3_pieces2", "optimizer"}, Offloading{"zero3_data2", "optimizer"},
                      Offloading{"zero3_data2", "all"}, Offloading{"zero3_data2_copies2", "all"},
                      Offloading{"zero3_data2_tensor2", "all"}, Offloading{"zero3_pipe2_data2_one_f_one_b", "all"},
                      Offloading{"zero3_pipe2_data2_tensor2", "all"}),
    [](const auto& test) { return test.param.layout + "_" + test.param.what; });

void expect_equal(const Learned& one, const Learned& other) {
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.figures, other.figures);
  ASSERT_EQ(one.weights.size(), other.weights.size());
  for (const auto& [name, weight] : one.weights) EXPECT_TRUE(at::equal(weight, other.weights.at(name))) << name;
}

TEST_P(Offloaded, LearnsTheSameBits) {
  for (const auto& recipe : {"gpt", "mlp"}) {
    expect_equal(learn(kRecipes.at(recipe), layout().ranks, settings(true, 20)),
                 learn(kRecipes.at(recipe), layout().ranks, settings(false, 20)));
  }
  EXPECT_TRUE(std::filesystem::is_empty(disk_.path()));
}

TEST_P(Offloaded, IsSavedForRunsWithoutAndTheOtherWay) {
  const std::string& recipe = kRecipes.at("gpt");
  const Learned whole = learn(recipe, layout().ranks, settings(false, 14));
  for (const bool before : {false, true}) {
    const test::TemporaryFolder folder;
    const std::string runs = folder.path();
    const Learned first = learn(recipe, layout().ranks, settings(before, 8), {.folder = runs, .every_steps = 4});
    Learned rest =
        learn(recipe, layout().ranks, settings(!before, 14), {.folder = runs, .every_steps = 100, .resume = true});
    rest.losses.insert(rest.losses.begin(), first.losses.begin(), first.losses.end());
    expect_equal(rest, whole);
  }
}

class Remade : public ::testing::TestWithParam<std::tuple<std::string, Layout>> {};
INSTANTIATE_TEST_SUITE_P(Models, Remade,
                         ::testing::Combine(::testing::Values("gpt", "gpt_rotary"),
                                            ::testing::ValuesIn(layouts_to_remake())),
                         name_of);

TEST_P(Remade, HasTheBitsOfWhatKeepsAll) {
  const auto& [model, layout] = GetParam();
  const auto learn_with = [&, &variant = kVariants.at(model)](const std::string& setting) {
    auto settings = layout.settings;
    settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
    settings.push_back(setting);
    return learn(kRecipes.at(variant.recipe), layout.ranks, settings);
  };
  const Learned kept = learn_with("recompute=none"), remade = learn_with("recompute=selective");
  expect_equal(remade, kept);
}

/// Whatever is chosen for it.
TEST(Automatic, LearnsAsOneProcess) {
  const std::string& gpt = kRecipes.at("gpt");
  std::atomic<std::int64_t> pieces = 0;  // that ranks of the data axis and micro-batches make of a batch
  const auto of_table = learn(gpt, 4, {"parallel.layout=auto", "accumulate=2", "batch=8"}, {},
                              [&](RecipeRun& run) { pieces = run.layout.data * run.layout.micro_batches; });
  expect_same(of_table, learn(gpt, 1, {fmt::format("accumulate={}", pieces.load()), "batch=8"}), "table");
  // Two stages, as they are fixed beside it; and the text alone.
  const auto whole = learn(gpt, 1, {"accumulate=2"});
  expect_same(learn(gpt, 2, {"parallel.layout=auto", "parallel.pipe=2", "accumulate=2"}), whole, "pipe");
  const auto of_text = learn("parallel = \"auto\"\n" + gpt, 2, {"accumulate=2"}, {},
                             [&](RecipeRun& run) { pieces = run.layout.data * run.layout.micro_batches; });
  expect_same(of_text, learn(gpt, 1, {fmt::format("accumulate={}", pieces.load())}), "text");
}

TEST(Automatic, KeepsWhatWasChosenWhenARunGoesOn) {
  const auto chosen = [](const std::optional<train::Layout>& before, const std::vector<const char*>& settings = {}) {
    std::string text;
    comm::testing::on_ranks({4}, [&](comm::Communicator& world) {
      Config recipe = Config::from_text("parallel.layout = \"auto\"\n" + kRecipes.at("gpt"));
      for (const char* setting : settings) recipe.set(setting);
      const auto run = make_run(recipe, world, before);
      if (world.rank() == 0) text = run.layout.text();
    });
    return text;
  };
  const std::string first = chosen({});
  // Nobody would choose all of these for so small a model.
  for (const train::Layout& other :
       {train::Layout{.data = 2, .tensor = 2, .zero = 2}, train::Layout{.data = 2, .pipe = 2, .zero = 1}}) {
    EXPECT_NE(other.text(), first);
    EXPECT_EQ(chosen(other), other.text());
    EXPECT_EQ(chosen(other, {"parallel.pipe=4"}), "data 1, pipe 4");
  }
  EXPECT_EQ(chosen(train::Layout{.data = 2, .tensor = 4}), first);  // of other ranks
}

TEST(Layouts, AreKeptInCheckpoints) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(layout_before(folder.path()).has_value());
  std::string text;
  learn(kRecipes.at("gpt"), 4, {"parallel.tensor=2", "parallel.zero=2", "recompute=2"},
        {.folder = folder.path(), .every_steps = 10}, [&](RecipeRun& run) {
          if (run.settings.mesh->index(kDataAxis) + run.settings.mesh->index(kTensorAxis) == 0)
            text = run.layout.text();
        });
  const auto steps = CheckpointFolder(folder.path()).steps();
  ASSERT_GT(steps.size(), 1U);
  EXPECT_EQ(layout_before(folder.path()).value().text(), text);
  // A spoilt manifest is passed over, as a run that goes on does.
  std::ofstream(fmt::format("{}/{:010}/manifest.json", folder.path(), steps.back())) << "{";
  EXPECT_EQ(layout_before(folder.path()).value().text(), text);
}

TEST(Cuts, MayBeGiven) {
  const std::string& gpt = kRecipes.at("gpt");
  const auto whole = learn(gpt, 1, {"accumulate=4"});
  expect_same(learn(gpt, 2, {"parallel.pipe=2", "parallel.cuts=[0, 1]", "accumulate=4"}), whole, "cuts");
  expect_same(learn(gpt, 2, {"parallel.pipe=2", "parallel.costs=parameters", "accumulate=4"}), whole, "parameters");
  EXPECT_SAYS(testing::refusal(2, {"parallel.pipe=2", "parallel.cuts=[0, 9]"}, gpt),
              "parallel.cuts = [0, 9] does not cut a model into 2 stages");
}

TEST(Cuts, StayWhereTheyWereMeasuredWhenARunGoesOn) {
  const std::string& gpt = kRecipes.at("gpt");
  const auto saved = [&](const std::vector<std::string>& settings) {
    const test::TemporaryFolder folder;
    learn(gpt, 2, settings, {.folder = folder.path(), .every_steps = 100});
    return layout_before(folder.path()).value();
  };
  train::Layout before = saved({"parallel.pipe=2"});
  EXPECT_TRUE(before.cuts_are_measured);
  EXPECT_FALSE(saved({"parallel.pipe=2", "parallel.cuts=[0, 1]"}).cuts_are_measured);
  EXPECT_FALSE(saved({"parallel.pipe=2", "parallel.costs=parameters"}).cuts_are_measured);
  before.cuts.at(1) = 1;  // where nobody would cut
  comm::testing::on_ranks({2}, [&](comm::Communicator& world) {
    const auto begun = [&](const train::Layout& as, const std::vector<const char*>& settings) {
      Config recipe = Config::from_text(gpt);
      for (const char* setting : settings) recipe.set(setting);
      return make_run(recipe, world, as).layout;
    };
    const auto kept = begun(before, {"parallel.pipe=2"});
    EXPECT_EQ(kept.cuts, before.cuts);
    EXPECT_TRUE(kept.cuts_are_measured);
    EXPECT_NE(begun(before, {"parallel.pipe=2", "parallel.costs=parameters"}).cuts, before.cuts);
    EXPECT_EQ(begun(before, {"parallel.pipe=2", "parallel.cuts=[0, 2]"}).cuts.at(1), 2U);
    EXPECT_EQ(begun(before, {"parallel.pipe=2", "parallel.schedule=interleaved", "parallel.chunks=2", "accumulate=2"})
                  .cuts.size(),
              5U);
    train::Layout given = before;
    given.cuts_are_measured = false;
    EXPECT_NE(begun(given, {"parallel.pipe=2"}).cuts, before.cuts);
  });
}

/// While the second stage does its forward and backward of the only micro-batch, the first has nothing to do.
TEST(Cuts, SayHowLongStagesWait) {
  EXPECT_GT(testing::train(2, {"parallel.pipe=2"}, {}, testing::kGpt).result.waited_share, 0.2);
}

TEST(CutRefusals, StateAllTheNumbers) {
  const auto says = [](int ranks, const std::vector<std::string>& settings) {
    return testing::refusal(ranks, settings, kRecipes.at("gpt"));
  };
  EXPECT_SAYS(says(3, {"parallel.tensor=3"}), "parallel.tensor = 3 does not divide the 2 heads of the model");
  EXPECT_SAYS(says(3, {"parallel.tensor=2"}),
              "3 ranks for pipe 1 x data rest x tensor 2: the axes beside 'data' need 2");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "parallel.data=2"}), "2 ranks for pipe 1 x data 2 x tensor 2, which are 4");
  EXPECT_SAYS(says(6, {"parallel.pipe=6"}), "6 stages of a pipeline for a model of 4 blocks");
  EXPECT_SAYS(says(2, {"parallel.pipe=2", "parallel.schedule=interleaved", "accumulate=3"}),
              "'interleaved' (stages 2, micro-batches 3, chunks 2)");
  EXPECT_SAYS(says(2, {"parallel.pipe=2", "parallel.schedule=1f1c"}), "did you mean '1f1b'?");
  EXPECT_SAYS(says(2, {"parallel.data=all"}), "parallel.data = \"all\": it is a number of ranks, or \"rest\"");
  EXPECT_SAYS(says(2, {"parallel.order=['pipe', 'data']"}), "parallel.order holds each of pipe, data, tensor once");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "exact=true"}), "does not go with exact = true");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "parallel.tensor_plan={'*.c_atn'='column'}"}), "a name like '*.c_atn'");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "parallel.tensor_plan={'*.c_attn'='diagonal'}"}),
              "'diagonal': this kind of layer is split by column, row");
  EXPECT_SAYS(testing::refusal(2, {"parallel.tensor=2", "parallel.tensor_plan={'layers.2'='column'}", "exact=false"}),
              "of 3 classes: parallel.tensor_plan splits its last layer");
  EXPECT_SAYS(says(4, {"parallel.tensor=4", "parallel.tensor_plan={'*.c_attn'='column', '*.attn.c_proj'='row'}"}),
              "which is no number of whole heads");
  EXPECT_SAYS(says(2, {"parallel.zero=4"}), "parallel.zero = 4: it is from 0 to 3");
  EXPECT_SAYS(says(3, {"parallel.zero=3", "parallel.zero_ranks=2"}), "does not divide the 3 ranks of the data axis");
  EXPECT_SAYS(says(2, {"parallel.zero=2", "exact=true"}), "parallel.zero = 2 does not go with exact = true");
  EXPECT_SAYS(says(2, {"parallel.zero=3", "optimizer.name=lamb"}), "which looks at whole parameters");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "optimizer.name=lamb"}), "with parallel.tensor a rank has parts of them");
  EXPECT_SAYS(says(2, {"parallel.tensor=2", "parallel.tensor_plan={'*.mlp.*'='column', '*.mlp.c_proj'='row'}"}),
              "it is split already, by 'column'");
  EXPECT_SAYS(says(2, {"parallel.zero=1", "callbacks.ema.decay=0.9"}), "callbacks.ema, which keeps weights");
  EXPECT_SAYS(says(2, {"parallel.zero=3", "parallel.offload=some"}),
              "parallel.offload = \"some\": it is \"none\", \"optimizer\" or \"all\"");
  EXPECT_SAYS(
      says(2, {"parallel.zero=2", "parallel.offload=all"}),
      "parallel.offload = \"all\" needs parallel.zero = 3, also on one rank, and it is 2: set parallel.zero = 3, "
      "or parallel.offload = \"optimizer\"");
  EXPECT_SAYS(says(1, {"parallel.offload=optimizer"}),
              "needs parallel.zero = 1 or more, also on one rank, and it is 0: set parallel.zero = 1");
  EXPECT_SAYS(says(2, {"parallel.zero=3", "parallel.offload=all", "parallel.offload_folder=/nowhere"}),
              "parallel.offload needs /nowhere: No such file or directory");
  EXPECT_SAYS(says(2, {"parallel.zero=1", "parallel.offload=optimizer", "fuse_step=true"}),
              "fuse_step = true cannot be: parallel.offload steps what it reads from a file piece by piece");
  EXPECT_SAYS(says(2, {"recompute=some"}), "it is \"none\", \"full\", \"selective\"");
  EXPECT_SAYS(testing::refusal(1, {"recompute=selective"}), "the model 'mlp' says of none that it is");
  const std::vector<std::string> in_time{"parallel.tensor=2", "parallel.sequence=true"};
  const auto says_in_time = [&](std::vector<std::string> settings, const std::string& recipe) {
    settings.insert(settings.end(), in_time.begin(), in_time.end());
    return testing::refusal(2, settings, recipe);
  };
  EXPECT_SAYS(says_in_time({"data.train=tokens:samples=40,length=10,vocabulary=61",
                            "data.test=tokens:samples=10,length=10,vocabulary=61"},
                           kRecipes.at("gpt")),
              "the 2 ranks of the tensor axis do not divide the 9 positions of a sample");
  EXPECT_SAYS(says_in_time({"parallel.tensor_plan={'*.c_attn'='column'}"}, kRecipes.at("gpt")),
              "parallel.sequence = true takes the model's own plan");
  EXPECT_SAYS(says_in_time({}, kRecipes.at("mlp")),
              "the model 'mlp' does not say how its activations are cut along time over 2 ranks");
  EXPECT_SAYS(testing::refusal(2, {"parallel.tensor=2", "model.name=lstm", "model.hidden=8"}, testing::kTokens),
              "the model 'lstm' does not say how its layers are split over 2 ranks");
}

/// Layouts between which checkpoints go.
const std::vector<std::string> kSaved{
    "data2",       "tensor2",     "pipe2_interleaved",   "pipe2_tensor2_data2_one_f_one_b",
    "zero1_data2", "zero3_data2", "zero2_data3_pieces2", "zero3_pipe2_data2_tensor2"};

class Saved : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Saved, ::testing::ValuesIn(kSaved), [](const auto& test) { return test.param; });

TEST_P(Saved, IsLoadedUnderAnyOtherLayout) {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;
  const std::string &recipe = kRecipes.at("gpt"), first = folder.path() + "/first";
  const auto settings_of = [](const Layout& layout, int steps) {
    auto settings = layout.settings;
    settings.push_back(fmt::format("steps={}", steps));
    return settings;
  };
  const Layout own = layout_named(GetParam());
  const Learned before = learn(recipe, own.ranks, settings_of(own, 8), {.folder = first, .every_steps = 8});
  const auto go_on = [&](const Layout& layout, int steps) {
    const std::string copy = folder.path() + "/copy";
    fs::remove_all(copy);
    fs::copy(first, copy, fs::copy_options::recursive);
    return learn(recipe, layout.ranks, settings_of(layout, steps),
                 {.folder = copy, .every_steps = 100, .resume = true});
  };
  const Learned alone = go_on({"one", 1, {"accumulate=4"}, 4}, 16);
  ASSERT_EQ(alone.losses.size(), 8U);
  for (const auto& name : kSaved) {
    const Layout other = layout_named(name);
    const Learned loaded = go_on(other, 8);
    ASSERT_EQ(loaded.weights.size(), before.weights.size());
    for (const auto& [parameter, weight] : before.weights) {
      EXPECT_TRUE(at::equal(loaded.weights.at(parameter), weight)) << name << ", " << parameter;
    }
    expect_same(go_on(other, 16), alone, GetParam() + " to " + name);
  }
}

}  // namespace
}  // namespace lockstep::train
