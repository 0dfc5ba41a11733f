// Exact mode as a user sees it: every model's recipe, with dropout and augmentation, gives
// one hash on any number of ranks, of processes and of threads.
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/testing.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

struct Recipe {
  const char* name;
  std::vector<std::string> settings;  // smaller than the recipe's own
};
std::ostream& operator<<(std::ostream& out, const Recipe& recipe) { return out << recipe.name; }

const std::vector<std::string> kDigits = {"data.train=images:samples=2000,size=28,channels=1",
                                          "data.test=", "steps=50"};
const std::vector<std::string> kPhotos = {"data.train=images:samples=500,size=32,channels=3", "data.test="};

std::vector<std::string> with(std::vector<std::string> settings, const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

const Recipe kRecipes[] = {
    {"mlp", with(kDigits, {"batch=50", "model.hidden=[128, 64]", "schedule.warmup_epochs=0.1"})},
    {"mnist_cnn", with(kDigits, {"batch=16", "steps=20"})},
    // A step of it takes longer than ten of another.
    {"resnet18", with(kPhotos, {"batch=16", "steps=3"})},
    {"lstm", {"batch=20", "pack", "model.hidden=64", "steps=50"}},
    {"gpt", {"batch=20", "pack", "model.width=48", "model.layers=2", "steps=50"}},
};

class ExactRecipe : public testing::TestWithParam<Recipe> {
 protected:
  ExactRecipe() {
    std::ofstream text(folder_ / "text.txt");
    for (int line = 0; line < 2000; ++line)
      text << "line " << line * 7919 % 10007 << " of " << line % 13 << " parts\n\n";
  }

  std::string hash(int ranks, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {LOCKSTEP_PROGRAM,
                                      "train",
                                      fmt::format("{}/{}.toml", LOCKSTEP_RECIPES, GetParam().name),
                                      "-n",
                                      std::to_string(ranks),
                                      "--bind",
                                      "none",
                                      "--print-hash",
                                      "--runs",
                                      (folder_ / "runs").string(),
                                      "exact=true"};
    for (const auto& setting : GetParam().settings) {
      if (setting == "pack") {
        words.insert(words.end(), {"data.train=" + (folder_ / "text.txt").string(), "data.pack_window=33"});
      } else {
        words.push_back(setting);
      }
    }
    words.insert(words.end(), more.begin(), more.end());
    Background run(words);
    EXPECT_EQ(run.wait(150), 0) << run.errors();
    EXPECT_EQ(run.output().size(), 33U) << run.output();
    return run.output();
  }

  const test::TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Recipes, ExactRecipe, testing::ValuesIn(kRecipes),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(ExactRecipe, GivesOneHash) {
  const std::string wanted = hash(1);
  for (const int ranks : {2, 3, 4, 8}) EXPECT_EQ(hash(ranks), wanted) << ranks;
  EXPECT_EQ(hash(2, {"--one-process"}), wanted);
  EXPECT_EQ(hash(5, {"--one-process"}), wanted);
  EXPECT_NE(hash(2, {"seed=1"}), wanted);
}

}  // namespace
}  // namespace lockstep::test
