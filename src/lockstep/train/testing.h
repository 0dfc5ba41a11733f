// lockstep/train/testing.h
//
// For tests: whole runs of a small recipe, on ranks that are threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/testing.h"
#include "lockstep/train/recipe.h"

namespace lockstep::train::testing {

inline constexpr const char kBlobs[] = R"(
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

inline constexpr const char kTokens[] = R"(
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

inline constexpr const char kGpt[] = R"(
steps = 3
batch = 8
[data]
train = "tokens:samples=64,length=33,vocabulary=97"
[task]
name = "next_token"
vocabulary = 97
[model]
name = "gpt"
width = 64
layers = 4
heads = 4
[optimizer]
name = "adamw"
lr = 0.001
)";

struct Outcome {
  RunResult result;
  std::string hash;
};

/// The recipe with settings laid over it, on so many ranks; what rank 0 has at the end. `change` may replace what
/// the recipe made, on each rank, and `at_end` look at its model.
inline Outcome train(int ranks, const std::vector<std::string>& settings, const CheckpointSettings& checkpoints = {},
                     const std::string& recipe_text = kBlobs, const std::shared_ptr<Observer>& observer = nullptr,
                     const std::function<void(RecipeRun&)>& change = nullptr,
                     const std::function<void(const torch::nn::Module&)>& at_end = nullptr) {
  Outcome outcome;
  comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
    Config recipe = Config::from_text(recipe_text);
    for (const auto& setting : settings) recipe.set(setting);
    auto run = make_run(recipe, group);
    run.settings.checkpoints = checkpoints;
    if (change) change(run);
    Trainer trainer(group, run.settings);
    if (observer && group.rank() == 0) trainer.add(observer);
    auto result = trainer.fit(*run.task, run.data);
    if (at_end) at_end(run.task->model());
    if (group.rank() == 0) outcome = {std::move(result), hash_of(run.task->model())};
  });
  return outcome;
}

using test::message_of;

/// Of a run that cannot be.
inline std::string refusal(int ranks, const std::vector<std::string>& settings, const std::string& recipe = kBlobs,
                           Fault fault = Fault::Usage) {
  return message_of([&] { train(ranks, settings, {}, recipe); }, fault);
}

}  // namespace lockstep::train::testing

#define EXPECT_SAYS(message, text) EXPECT_NE((message).find(text), std::string::npos) << (message)
