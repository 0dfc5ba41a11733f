// `lockstep train --dry-run` as a user asks it: what it says, its exit code, and that it leaves nothing.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/testing.h"

namespace lockstep::test {
namespace {

constexpr const char kGpt[] = R"(
steps = 4
batch = 8
[data]
train = "tokens:samples=64,length=33,vocabulary=300"
[task]
name = "next_token"
vocabulary = 300
[model]
name = "gpt"
width = 128
layers = 4
heads = 4
[optimizer]
name = "adamw"
lr = 0.001
)";

class DryRunProgram : public ::testing::Test {
 protected:
  std::vector<std::string> train(std::vector<std::string> more) const {
    const std::vector<std::string> words{LOCKSTEP_PROGRAM, "train", recipe_, "--runs", (folder_ / "runs").string()};
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  }
  TemporaryFolder folder_;
  std::string recipe_ = folder_.write("gpt.toml", kGpt);
};

TEST_F(DryRunProgram, SaysWhetherItFitsAndLeavesNothing) {
  Background run(train({"-n", "2", "--dry-run"}));
  EXPECT_EQ(run.wait(60), 0) << run.errors();
  EXPECT_NE(run.output().find("it fits: "), std::string::npos) << run.output();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

TEST_F(DryRunProgram, EndsWithTwoIfItDoesNotFit) {
  // 40 GB of weights, and four times that in all, for which no host of ours has room.
  Background run(train({"-n", "1", "model.layers=200", "model.width=2048", "--dry-run", "--json"}));
  EXPECT_EQ(run.wait(100), 2) << run.errors();
  const auto json = nlohmann::json::parse(run.output());
  EXPECT_FALSE(json["fits"].get<bool>());
  EXPECT_GT(json["memory"]["weights_bytes"].get<double>(), 3.5e10);
}

/// Ranks are processes here, whose messages lie in memory that they share.
class Foretells : public DryRunProgram, public ::testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Layouts, Foretells,
                         ::testing::Values(std::vector<std::string>{}, std::vector<std::string>{"parallel.tensor=2"},
                                           std::vector<std::string>{"parallel.tensor=2", "parallel.sequence=true"},
                                           std::vector<std::string>{"parallel.pipe=2", "accumulate=4"},
                                           std::vector<std::string>{"parallel.zero=3"}),
                         [](const auto& test) { return std::to_string(test.index); });

TEST_P(Foretells, WhatARunReports) {
  std::vector<std::string> ask{"-n", "2", "--dry-run", "--json"}, take{"-n", "2", "--bind", "none", "--json"};
  for (auto* words : {&ask, &take}) words->insert(words->end(), GetParam().begin(), GetParam().end());
  Background asked(train(ask)), run(train(take));
  EXPECT_EQ(asked.wait(60), 0) << asked.errors();
  EXPECT_EQ(run.wait(60), 0) << run.errors();
  const auto foretold = nlohmann::json::parse(asked.output())["memory"];
  const auto taken = nlohmann::json::parse(run.output())["memory"];
  for (const std::string kind : {"weights", "gradients", "optimizer", "activations"}) {
    const double expected = foretold[kind + "_bytes"], found = taken[kind + "_bytes"];
    EXPECT_NEAR(found / expected, 1, 0.05) << kind;
    EXPECT_EQ(taken["predicted"][kind + "_bytes"], foretold[kind + "_bytes"]) << kind;
  }
}

TEST_F(DryRunProgram, AnswersForExactRuns) {
  Background run(train({"-n", "2", "exact=true", "--dry-run"}));
  EXPECT_EQ(run.wait(60), 0) << run.errors();
  EXPECT_NE(run.output().find("it fits: "), std::string::npos) << run.output();
}

TEST_F(DryRunProgram, OfARunThatGoesOnTrainsNothing) {
  const std::vector<std::string> cut{"--bind", "none", "-n", "2", "--name", "cut", "parallel.tensor=2"};
  Background begun(train(cut));
  ASSERT_EQ(begun.wait(60), 0) << begun.errors();
  Background asked(train({"--name", "cut", "--resume", "--dry-run", "steps=8"}));
  EXPECT_EQ(asked.wait(60), 0) << asked.errors();
  EXPECT_NE(asked.output().find("layout: data 1, tensor 2 on 2 ranks"), std::string::npos) << asked.output();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs/cut/checkpoints/0000000004"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs/cut/checkpoints/0000000008"));
  Background searched(train({"--name", "cut", "--resume", "--find-lr"}));
  EXPECT_EQ(searched.wait(60), 2);
  EXPECT_NE(searched.errors().find("leave out it or --resume"), std::string::npos) << searched.errors();
}

TEST_F(DryRunProgram, RefusesAHashOfWeightsThatNoRankHas) {
  for (const std::string set : {"parallel.tensor=2", "parallel.zero=3"}) {
    Background run(train({"-n", "2", "--bind", "none", "--print-hash", set}));
    EXPECT_EQ(run.wait(60), 2) << set;
    EXPECT_NE(run.errors().find("'lockstep runs export'"), std::string::npos) << run.errors();
  }
}

}  // namespace
}  // namespace lockstep::test
