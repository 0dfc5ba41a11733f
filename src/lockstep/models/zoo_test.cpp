// Every model: shapes, sizes, weights that come back from a file.
#include <unistd.h>

#include <filesystem>
#include <set>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/core/error.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/models/model.h"
#include "lockstep/models/weights.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::models {
namespace {

struct Case {
  const char* name;
  const char* recipe;
  ModelData data;
  std::int64_t parameters;  // as PyTorch counts them
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

const Case kCases[] = {
    {"mlp", "hidden = [4096, 4096]", {{1, 28, 28}, 10}, 20'037'642},
    {"mnist_cnn", "dropout = 0.5", {{1, 28, 28}, 10}, 1'199'882},
    {"alexnet", "dropout = 0.5", {{3, 64, 64}, 1000}, 61'100'840},
    {"resnet18", "stem = 'large'", {{3, 64, 64}, 1000}, 11'689'512},
    {"resnet50", "stem = 'large'", {{3, 64, 64}, 1000}, 25'557'032},
    {"lstm",
     "width = 8\nhidden = 16\nlayers = 2\ndropout = 0.1",
     {{12}, 50},
     50 * 8 + 4 * 16 * (8 + 16 + 2) + 4 * 16 * (32 + 2) + 17 * 50},
    {"gpt",
     "width = 32\nlayers = 2\nheads = 4\ndropout = 0.1",
     {{12}, 50},
     50 * 32 + 12 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64},
    {"gpt",
     "width = 32\nlayers = 2\nheads = 4\ntied = false\nsparse_embedding = true",
     {{12}, 50},
     2 * 50 * 32 + 12 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64},
    // Attention and norms as ever, and 96 is the next multiple of 16 above two thirds of 4 * 32.
    {"gpt",
     "width = 32\nlayers = 2\nheads = 4\npositions = 'rotary'\nactivation = 'swiglu'",
     {{12}, 50},
     50 * 32 + 2 * (4 * 32 * 32 + 8 * 32 + 3 * 32 * 96 + 2 * 96 + 32) + 64},
    {"gpt",
     "width = 32\nlayers = 2\nheads = 4\nactivation = 'swiglu'\nhidden = 40\ntied = false",
     {{12}, 50},
     2 * 50 * 32 + 12 * 32 + 2 * (4 * 32 * 32 + 8 * 32 + 3 * 32 * 40 + 2 * 40 + 32) + 64},
};

std::unique_ptr<Model> make(const Case& one, std::uint64_t seed) {
  const Config recipe = Config::from_text(std::string("[model]\n") + one.recipe);
  auto model = make_model(one.name, recipe, "model", one.data, seed);
  recipe.finish();
  return model;
}

torch::Tensor input_of(const Case& one) {
  std::vector<std::int64_t> shape = one.data.input;
  shape.insert(shape.begin(), 2);
  return shape.size() == 2 ? torch::randint(one.data.outputs, shape, torch::kLong) : torch::randn(shape);
}

class Zoo : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Models, Zoo, testing::ValuesIn(kCases),
                         [](const auto& one) { return one.param.name + std::to_string(one.index); });

TEST_P(Zoo, HasTheShapesOfPyTorch) {
  const auto model = make(GetParam(), 1);
  std::int64_t count = 0;
  for (const auto& parameter : parallel::parameters_of(model->module())) count += parameter.tensor.numel();
  EXPECT_EQ(count, GetParam().parameters);
  model->module().eval();
  const torch::NoGradGuard no_gradients;
  const auto output = model->forward(input_of(GetParam()));
  EXPECT_EQ(output.size(0), 2);
  EXPECT_EQ(output.size(-1), GetParam().data.outputs);
}

TEST_P(Zoo, BeginsTheSameForOneSeed) {
  const auto one = make(GetParam(), 1), same = make(GetParam(), 1), other = make(GetParam(), 2);
  const auto input = input_of(GetParam());
  parallel::random_key() = {1, 2, 3};
  const auto output = one->forward(input);
  EXPECT_TRUE(torch::equal(output, same->forward(input)));
  EXPECT_FALSE(torch::equal(output, other->forward(input)));
}

TEST_P(Zoo, ComesBackFromAFile) {
  const std::string path = testing::TempDir() + "/zoo_test_" + std::to_string(getpid());
  const auto one = make(GetParam(), 1), other = make(GetParam(), 2);
  save_weights(*one, path);
  load_weights(*other, path);
  // And from one whose names have a prefix.
  parallel::Parameters prefixed;
  const data::Safetensors file(path);
  for (const auto& name : file.names()) prefixed.push_back({"module." + name, file.read(name)});
  data::write_safetensors(path, prefixed);
  const auto third = make(GetParam(), 3);
  load_weights(*third, path);
  std::filesystem::remove(path);
  const auto mine = parallel::parameters_of(one->module()), theirs = parallel::parameters_of(other->module()),
             again = parallel::parameters_of(third->module());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_TRUE(torch::equal(mine[i].tensor, theirs[i].tensor)) << mine[i].name;
    EXPECT_TRUE(torch::equal(mine[i].tensor, again[i].tensor)) << mine[i].name;
  }
}

// Linear maps that change nothing, of ones: what comes out is the product of all masks.
TEST(Dropout, OfEachLayerHasItsOwnMask) {
  constexpr std::int64_t kSize = 1000;
  const auto mlp = make_model("mlp", Config::from_text("[model]\nhidden = [1000, 1000, 1000]\ndropout = 0.5"), "model",
                              {{kSize}, kSize}, 1);
  const torch::NoGradGuard no_gradients;
  for (const auto& [name, tensor] : parallel::parameters_of(mlp->module())) {
    if (tensor.dim() == 2) {
      tensor.copy_(torch::eye(kSize));
    } else {
      tensor.zero_();
    }
  }
  parallel::random_key() = {1, 2, 3};
  const auto output = mlp->forward(torch::ones({10, kSize}));
  // Three masks that have nothing to do with each other leave an eighth, and of equal ones a half would be left.
  EXPECT_NEAR(output.count_nonzero().item<double>() / static_cast<double>(output.numel()), 0.125, 0.02);
}

TEST(Dropout, OfLstmLayersIsNamedByLayer) {
  const auto lstm = make_model("lstm", Config::from_text("[model]\nwidth = 4\nhidden = 4\nlayers = 4\ndropout = 0.5"),
                               "model", {{12}, 50}, 1);
  std::set<std::uint64_t> keys;
  for (const auto& module : lstm->module().modules()) {
    if (const auto* dropout = module->as<parallel::DropoutImpl>()) keys.insert(dropout->key);
  }
  EXPECT_EQ(keys.size(), 4U);  // three between the layers, and one behind them
}

TEST(Weights, OfAnotherModelAreRefused) {
  const std::string path = testing::TempDir() + "/weights_test_" + std::to_string(getpid());
  const auto small = make_model("mlp", Config::from_text("[model]\nhidden = [3]"), "model", {{4}, 2}, 1);
  save_weights(*small, path);
  const auto wide = make_model("mlp", Config::from_text("[model]\nhidden = [5]"), "model", {{4}, 2}, 1);
  const auto deep = make_model("mlp", Config::from_text("[model]\nhidden = [3, 3]"), "model", {{4}, 3}, 1);
  const auto message = [&path](Model& model) -> std::string {
    try {
      load_weights(model, path);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message(*wide).find("'layers.0.weight' is [3, 4] in "), std::string::npos) << message(*wide);
  EXPECT_NE(message(*deep).find("'layers.1.weight' is [2, 3] in "), std::string::npos) << message(*deep);
  std::filesystem::remove(path);
}

TEST(Gpt, ReadsMatricesOfOpenAI) {
  const Case gpt = kCases[6];
  const std::string path = testing::TempDir() + "/gpt_test_" + std::to_string(getpid());
  const auto one = make(gpt, 1), other = make(gpt, 2);
  parallel::Parameters published;
  for (const auto& [name, tensor] : parallel::parameters_of(one->module())) {
    const bool turned = name.find(".c_") != std::string::npos && tensor.dim() == 2;
    published.push_back({"transformer." + name, turned ? tensor.t() : tensor});
  }
  published.push_back({"transformer.h.0.attn.bias", torch::ones({1, 1, 12, 12})});  // their mask, which is no weight
  data::write_safetensors(path, published);
  load_weights(*other, path);
  std::filesystem::remove(path);
  one->module().eval();
  other->module().eval();
  const auto input = input_of(gpt);
  EXPECT_TRUE(torch::equal(one->forward(input), other->forward(input)));
}

TEST(Zoo, SaysWhatAModelCannotTake) {
  const auto message = [](const char* name, const char* recipe, const ModelData& data) -> std::string {
    try {
      (void)make_model(name, Config::from_text(std::string("[model]\n") + recipe), "model", data, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message("mnist_cnn", "", {{28, 28}, 10}).find("not [28, 28]"), std::string::npos);
  EXPECT_NE(message("alexnet", "", {{3, 32, 32}, 10}).find("at least 63 x 63"), std::string::npos);
  EXPECT_NE(message("resnet18", "stem = 'tiny'", {{3, 32, 32}, 10}).find("not \"tiny\""), std::string::npos);
  EXPECT_NE(message("resnet18", "width = 0", {{3, 32, 32}, 10}).find("model.width = 0"), std::string::npos);
  EXPECT_NE(message("gpt", "width = 30", {{8}, 10}).find("heads divide the width"), std::string::npos);
  EXPECT_NE(message("gpt", "sparse_embedding = true", {{8}, 10}).find("set model.tied = false"), std::string::npos);
  EXPECT_NE(message("gpt", "positions = 'rotated'", {{8}, 10})
                .find("model.positions = \"rotated\": it is \"learned\" or \"rotary\""),
            std::string::npos);
  EXPECT_NE(message("gpt", "activation = 'relu'", {{8}, 10})
                .find("model.activation = \"relu\": it is \"gelu\" or \"swiglu\""),
            std::string::npos);
  EXPECT_NE(message("gpt", "width = 20\npositions = 'rotary'", {{8}, 10})
                .find("width 20 of 4 heads leaves each 5, which is odd"),
            std::string::npos);
  EXPECT_EQ(message("gpt", "width = 20", {{8}, 10}), "") << "learned positions take any width";
  EXPECT_NE(message("lstm", "layers = 0", {{8}, 10}).find("layers 0"), std::string::npos);
  EXPECT_NE(message("mlp", "hidden = [0]", {{8}, 10}).find("from 1 on"), std::string::npos);
  EXPECT_NE(message("mlp", "dropout = 1.5", {{8}, 10}).find("dropout of 1.5"), std::string::npos);
}

std::set<std::string> parameter_names(const char* model) {
  const auto one =
      std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) { return c.name == std::string(model); });
  std::set<std::string> names;
  for (const auto& named : make(*one, 1)->module().named_parameters()) names.insert(named.key());
  return names;
}

// As torchvision has them, so that its published weights open here.
TEST(Names, AreThoseOfPyTorch) {
  std::set<std::string> alexnet;
  for (const char* layer : {"features.0", "features.3", "features.6", "features.8", "features.10", "classifier.1",
                            "classifier.4", "classifier.6"}) {
    for (const char* part : {".weight", ".bias"}) alexnet.insert(std::string(layer) + part);
  }
  EXPECT_EQ(parameter_names("alexnet"), alexnet);

  std::set<std::string> resnet = {"conv1.weight", "bn1.weight", "bn1.bias", "fc.weight", "fc.bias"};
  const int blocks[] = {3, 4, 6, 3};
  for (int layer = 1; layer <= 4; ++layer) {
    for (int block = 0; block < blocks[layer - 1]; ++block) {
      const std::string prefix = "layer" + std::to_string(layer) + "." + std::to_string(block) + ".";
      for (const char* number : {"1", "2", "3"}) {
        resnet.insert({prefix + "conv" + number + ".weight", prefix + "bn" + number + ".weight",
                       prefix + "bn" + number + ".bias"});
      }
      if (block > 0) continue;
      resnet.insert({prefix + "downsample.0.weight", prefix + "downsample.1.weight", prefix + "downsample.1.bias"});
    }
  }
  EXPECT_EQ(parameter_names("resnet50"), resnet);
}

}  // namespace
}  // namespace lockstep::models
