// A model that was trained is made again of its checkpoint, without its data.
#include "lockstep/train/trained_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <torch/nn/module.h>

#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/recipe_tokenizer.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

const std::vector<std::string> kGpt{
    "precision=float64",       "model.name=gpt",    "model.layers=2", "model.heads=2", "model.positions=rotary",
    "model.activation=swiglu", "model.dropout=0.1", "steps=5",        "batch=8"};

Config recipe() {
  Config config = Config::from_text(testing::kTokens);
  for (const auto& setting : kGpt) config.set(setting);
  return config;
}

SavedCheckpoint trained(const std::string& folder, int ranks, std::vector<std::string> settings) {
  settings.insert(settings.end(), kGpt.begin(), kGpt.end());
  testing::train(ranks, settings, {.folder = folder, .every_steps = 5}, testing::kTokens);
  return CheckpointFolder(folder).read(5);
}

parallel::Parameters weights_of(const SavedCheckpoint& checkpoint) {
  parallel::Parameters weights;
  for (const auto& name : checkpoint.tensors.names()) weights.push_back({name, checkpoint.tensors.read(name)});
  return weights;
}

TEST(TrainedModel, IsTheSameWhateverLayoutHasTrainedIt) {
  const test::TemporaryFolder folder;
  const at::NoGradGuard no_gradients;
  const auto scores = [&](const char* name, int ranks, const std::vector<std::string>& settings) {
    const auto checkpoint = trained(folder / name, ranks, settings);
    const auto data = noted_model_data(checkpoint.facts);
    EXPECT_EQ(data.input, std::vector<std::int64_t>{8});
    EXPECT_EQ(data.outputs, 60);
    const auto model = trained_model(recipe(), data, weights_of(checkpoint));
    EXPECT_FALSE(model->module().is_training());
    EXPECT_EQ(model->context(), 8);
    return model->forward(at::arange(8, at::kLong).unsqueeze(0));
  };
  const at::Tensor alone = scores("alone", 1, {"accumulate=2"});
  EXPECT_EQ(alone.scalar_type(), at::kDouble);
  const at::Tensor cut = scores("cut", 4, {"parallel.pipe=2", "parallel.tensor=2", "accumulate=2"});
  EXPECT_TRUE(at::allclose(cut, alone, 1e-8, 1e-10));
}

TEST(TrainedModel, SaysWhatIsMissing) {
  const test::TemporaryFolder folder;
  auto checkpoint = trained(folder / "run", 1, {});
  const auto data = noted_model_data(checkpoint.facts);
  Config wider = recipe();
  wider.set("model.width=16");
  EXPECT_SAYS(test::message_of([&] { trained_model(wider, data, weights_of(checkpoint)); }),
              "the checkpoint holds no 'wte.weight' of the model's shape");
  checkpoint.facts.erase("model");
  EXPECT_SAYS(test::message_of([&] { noted_model_data(checkpoint.facts); }), "does not say what its model takes");
}

TEST(RecipeTokenizer, IsThatOfTheData) {
  const auto of = [](const std::string& data) { return tokenizer_of(Config::from_text("[data]\n" + data)); };
  EXPECT_EQ(of("train = 'a.txt'\nprepare = ['tokenise text tokenizer=bpe end=50256']"), "bpe");
  EXPECT_EQ(of("train = 'a.txt'\nprepare = ['tokenise text']"), "bytes");
  EXPECT_EQ(of("train = 'a.txt'\ntransforms = ['tokenise text tokenizer=bpe:folder']"), "bpe:folder");
  EXPECT_EQ(of("train = 'bible:window=129,tokenizer=bpe-of:bible'"), "bpe-of:bible");
  EXPECT_EQ(of("train = 'bible:stride=7,window=129'"), "bytes");
  EXPECT_EQ(of("train = 'tokens:length=129'"), "");
  EXPECT_EQ(of("train = 'tokens.npy'\nwindow = 129"), "");
}

}  // namespace
}  // namespace lockstep::train
