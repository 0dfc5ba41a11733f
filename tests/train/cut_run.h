// tests/train/cut_run.h
//
// Recipes of models that are cut over ranks, trained by `lockstep train` as a user starts it.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/testing.h"
#include "lockstep/train/cut_cases.h"

namespace lockstep::test {

using train::testing::Layout;
using train::testing::Learned;

class CutRuns {
 public:
  explicit CutRuns(const std::string& model)
      : recipe_(folder_.write("recipe.toml", train::testing::kRecipes.at(model))) {}

  /// `where` is what starts ranks: {"-n", "4"}.
  std::vector<std::string> command(const std::string& name, const std::vector<std::string>& where,
                                   const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {LOCKSTEP_PROGRAM,
                                      "train",
                                      recipe_,
                                      "precision=float64",
                                      "parallel.unit_bytes=0",
                                      "checkpoints.every_steps=100"};
    words.insert(words.end(), settings.begin(), settings.end());
    words.insert(words.end(), where.begin(), where.end());
    words.insert(words.end(), {"--name", name, "--runs", folder_ / "runs", "--bind", "none", "--losses", losses(name)});
    return words;
  }

  std::string checkpoints(const std::string& name) const { return folder_ / "runs" / name / "checkpoints"; }

  /// Of a run that has ended; nothing is known of figures.
  Learned learned(const std::string& name) const {
    Learned learned{.losses = {}, .weights = train::testing::saved_weights(checkpoints(name)), .figures = {}};
    std::ifstream file(losses(name));
    std::string head;
    std::getline(file, head);
    EXPECT_EQ(head, "step,loss");
    std::size_t step = 0;
    char comma = 0;
    for (double loss = 0; file >> step >> comma >> loss;) {
      learned.losses.push_back(loss);
      EXPECT_EQ(step, learned.losses.size());
    }
    return learned;
  }

  /// Runs it to its end.
  Learned learn(const std::string& name, const std::vector<std::string>& command) const {
    const Answer answer = answer_of(command, 150);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    if (answer.code != 0) return {};
    return learned(name);
  }
  /// With the pieces of a batch that the layout has.
  Learned learn_as_one_process(const Layout& layout) const {
    return learn("one", command("one", {"-n", "1"}, {fmt::format("accumulate={}", layout.pieces)}));
  }

 private:
  std::string losses(const std::string& name) const { return folder_ / (name + ".csv"); }

  const TemporaryFolder folder_;
  std::string recipe_;
};

}  // namespace lockstep::test
