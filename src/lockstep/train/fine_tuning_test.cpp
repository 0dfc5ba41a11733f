// Runs that begin with weights of a file, and train some of them.
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/testing.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::kBlobs;
using testing::refusal;
using testing::train;
using Settings = std::vector<std::string>;

class FineTuning : public ::testing::Test {
 protected:
  FineTuning() { pretrain("seed=7"); }

  void pretrain(const std::string& seed) const {
    train(1, {seed}, {}, kBlobs, nullptr, nullptr,
          [this](const torch::nn::Module& model) { data::write_safetensors(file(), parallel::parameters_of(model)); });
  }
  std::string file() const { return folder_.path() + "/weights.safetensors"; }
  Settings with(Settings settings) const {
    settings.insert(settings.begin(), "model.weights='" + file() + "'");
    return settings;
  }
  CheckpointSettings checkpoints(bool resume) const {
    return {.folder = folder_.path() + "/checkpoints", .every_steps = 9, .resume = resume};
  }
  /// Of all ranks at the end.
  static std::set<std::string> hashes(int ranks, const Settings& settings, const CheckpointSettings& checkpoints = {}) {
    std::mutex mutex;
    std::set<std::string> result;
    train(ranks, settings, checkpoints, kBlobs, nullptr, nullptr, [&](const torch::nn::Module& model) {
      const std::lock_guard lock(mutex);
      result.insert(hash_of(model));
    });
    return result;
  }

  const test::TemporaryFolder folder_;
};

TEST_F(FineTuning, BeginsWithTheWeightsOfTheFile) {
  const data::Safetensors saved(file());
  train(2, with({"optimizer.lr=0", "steps=2"}), {}, kBlobs, nullptr, nullptr, [&](const torch::nn::Module& model) {
    for (const auto& [name, tensor] : parallel::parameters_of(model)) {
      EXPECT_TRUE(at::equal(tensor, saved.read(name))) << name;
    }
  });
}

TEST_F(FineTuning, GivesAModelOfOtherClassesANewHead) {
  const Settings four = {"data.train='blobs:samples=130,dims=6,classes=4'",
                         "data.test='blobs:samples=50,dims=6,classes=4'"};
  EXPECT_SAYS(refusal(1, with(four)), "'layers.2.weight' is [3, 8] in the file and [4, 8] in the model");
  EXPECT_SAYS(refusal(1, with(four)), "model.weights_except");
  Settings tuned = with(four);
  tuned.insert(tuned.end(), {"model.weights_except=['layers.2.*']", "optimizer.lr=0", "steps=2"});
  const data::Safetensors saved(file());
  train(2, tuned, {}, kBlobs, nullptr, nullptr, [&](const torch::nn::Module& model) {
    for (const auto& [name, tensor] : parallel::parameters_of(model)) {
      if (name.starts_with("layers.2.")) {
        EXPECT_EQ(tensor.size(0), 4);
      } else {
        EXPECT_TRUE(at::equal(tensor, saved.read(name))) << name;
      }
    }
  });
}

TEST_F(FineTuning, NamesWhatDoesNotFit) {
  EXPECT_SAYS(refusal(1, with({"model.hidden=[8]"})), "the model has no layers.2.weight, layers.2.bias");
  const std::string deeper = refusal(1, with({"model.hidden=[8, 8, 3]"}));
  EXPECT_SAYS(deeper, "it lacks layers.3.weight, layers.3.bias");
  EXPECT_EQ(deeper.find("the model has no"), std::string::npos) << deeper;
  EXPECT_SAYS(refusal(1, with({"model.weights_except=['fc.*']"})),
              "model.weights_except: nothing has a name like 'fc.*'");
  EXPECT_SAYS(refusal(1, {"model.weights_except=['layers.2.*']"}), "set model.weights");
  EXPECT_SAYS(refusal(1, {"model.frozen=['conv1.*']"}), "model.frozen: nothing has a name like 'conv1.*'");
  EXPECT_SAYS(refusal(1, {"model.frozen=['*']"}), "there is nothing to train");
  EXPECT_THROW(train(1, {"model.weights='" + folder_.path() + "/none.safetensors'"}), Error);
}

/// All but the last layer, and one of its neighbours' parameters by name.
const Settings kFrozen = {"model.frozen=['layers.0.*', 'layers.1.bias']", "optimizer.weight_decay=0.1"};

TEST_F(FineTuning, FrozenWeightsKeepTheirBits) {
  const data::Safetensors saved(file());
  for (const int ranks : {1, 2}) {
    for (const char* fused : {"fuse_step=true", "fuse_step=false"}) {
      for (const char* exact : {"exact=true", "exact=false"}) {
        Settings settings = with(kFrozen);
        settings.insert(settings.end(), {fused, exact});
        train(ranks, settings, {}, kBlobs, nullptr, nullptr, [&](const torch::nn::Module& model) {
          for (const auto& [name, tensor] : parallel::parameters_of(model)) {
            const bool frozen = name.starts_with("layers.0.") || name == "layers.1.bias";
            EXPECT_EQ(at::equal(tensor, saved.read(name)), frozen)
                << name << ", " << ranks << " ranks, " << fused << ", " << exact;
          }
        });
      }
    }
  }
}

TEST_F(FineTuning, IsExactWithFrozenWeights) {
  std::set<std::string> all;
  for (const int ranks : {1, 2, 3}) all.merge(hashes(ranks, with(kFrozen)));
  EXPECT_EQ(all.size(), 1U);
}

TEST_F(FineTuning, GoesOnFromACheckpoint) {
  const auto whole = hashes(2, with(kFrozen));
  train(1, with(kFrozen), checkpoints(false));
  fs::remove_all(folder_.path() + "/checkpoints/0000000012");
  // Weights are the checkpoint's on every rank, frozen ones too, whatever the file holds by now.
  pretrain("seed=8");
  EXPECT_EQ(hashes(3, with(kFrozen), checkpoints(true)), whole);
}

TEST_F(FineTuning, LetsGroupsNameFrozenWeights) {
  Settings settings = kFrozen;
  settings.emplace_back("optimizer.no_decay=['layers.0.bias', 'layers.2.bias']");
  EXPECT_EQ(train(2, settings).result.steps, 12);
  settings.back() = "optimizer.no_decay=['norm.*']";
  EXPECT_SAYS(refusal(1, settings), "no parameter that is trained has a name like 'norm.*'");
}

}  // namespace
}  // namespace lockstep::train
