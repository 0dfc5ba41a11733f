// `lockstep generate` as a user calls it, after a few steps on a text that is easy to learn.
#include <stdlib.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/testing.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

constexpr const char kPeriod[] = "one two three four ";

class Generate : public ::testing::Test {
 protected:
  /// One run for all tests, cut over two ranks.
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    std::string text;
    for (int i = 0; i < 300; ++i) text += std::string(kPeriod) + (i % 5 == 4 ? "\n" : "");
    const std::string corpus = folder_->write("corpus.txt", text);
    const std::string recipe = folder_->write("count.toml", R"(
steps = 120
batch = 16
[data]
train = ")" + corpus + R"("
prepare = ["tokenise text tokenizer=bytes"]
pack_window = 33
[task]
name = "next_token"
vocabulary = 256
[model]
name = "gpt"
width = 32
layers = 2
heads = 2
positions = "rotary"
activation = "swiglu"
[optimizer]
name = "adamw"
lr = 0.01
[checkpoints]
every_steps = 60
)");
    const auto trained = answer_of({LOCKSTEP_PROGRAM, "train", recipe, "-n", "2", "--bind", "none", "--name", "count",
                                    "--runs", runs(), "parallel.tensor=2"},
                                   100);
    ASSERT_EQ(trained.code, 0) << trained.errors;
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string runs() { return *folder_ / "runs"; }
  static Answer generate(std::vector<std::string> words, const std::string& run = "count") {
    words.insert(words.begin(), {LOCKSTEP_PROGRAM, "generate", run, "--runs", runs()});
    return answer_of(words, 60);
  }
  static std::string text(const std::vector<std::string>& words) {
    const auto answer = generate(words);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return answer.output;
  }
  static std::string refusal(const std::vector<std::string>& words, const std::string& run = "count") {
    const auto answer = generate(words, run);
    EXPECT_EQ(answer.code, 2) << answer.output;
    EXPECT_EQ(answer.output, "");
    return answer.errors;
  }

  static TemporaryFolder* folder_;
};
TemporaryFolder* Generate::folder_ = nullptr;

TEST_F(Generate, GoesOnAsTheTextDoes) {
  const std::string prompt = "two three four ";
  EXPECT_EQ(
      text({"--prompt", prompt, "--tokens", "15", "--temperature", "0"}), prompt + "one two three f\n"  // 15 letters
  );
}

TEST_F(Generate, IsTheSameForOneSeed) {
  const std::vector<std::string> words{"--prompt", "one", "--temperature", "3", "--tokens", "60", "--seed"};
  const auto with_seed = [&](const char* seed) {
    auto all = words;
    all.emplace_back(seed);
    return text(all);
  };
  EXPECT_EQ(with_seed("1"), with_seed("1"));
  EXPECT_NE(with_seed("1"), with_seed("2"));
}

TEST_F(Generate, IsForScriptsToo) {
  const auto answer = json::parse(text({"--prompt", "one two", "--tokens", "6", "--top-k", "1", "--json"}));
  EXPECT_EQ(answer.at("run"), "count");
  EXPECT_EQ(answer.at("step"), 120);
  EXPECT_EQ(answer.at("prompt"), "one two");
  EXPECT_EQ(answer.at("text"), " three");
  EXPECT_EQ(answer.at("tokens"), (json{32, 116, 104, 114, 101, 101}));
}

TEST_F(Generate, TakesAnyCheckpoint) {
  const std::vector<std::string> words{"--prompt", "one", "--tokens", "3", "--json"};
  const auto step_of = [&](const std::string& run, std::vector<std::string> more) {
    more.insert(more.end(), words.begin(), words.end());
    const auto answer = generate(more, run);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return json::parse(answer.output).at("step").get<int>();
  };
  EXPECT_EQ(step_of(runs() + "/count", {}), 120);
  EXPECT_EQ(step_of(runs() + "/count/", {}), 120);
  EXPECT_EQ(step_of(runs() + "/count/checkpoints/0000000060", {}), 60);
  EXPECT_EQ(step_of("count", {"--step", "60"}), 60);
}

TEST_F(Generate, LooksBackAsFarAsItsContext) {
  std::string prompt;
  for (int i = 0; i < 4; ++i) prompt += kPeriod;
  const auto answer = generate({"--prompt", prompt, "--tokens", "40", "--temperature", "0"});
  EXPECT_EQ(answer.code, 0);
  EXPECT_TRUE(has(answer.errors, "the prompt has 76 tokens, more than the 32 that the model looks back on"))
      << answer.errors;
  EXPECT_EQ(answer.output.size(), 76U + 40 + 1);
  EXPECT_TRUE(answer.output.starts_with(prompt + "one two three")) << answer.output;
}

TEST_F(Generate, SaysWhatIsWrong) {
  EXPECT_TRUE(has(refusal({"--prompt", "one"}, "cuont"), "there is no run 'cuont'"));
  EXPECT_TRUE(has(refusal({"--prompt", "one"}, "cuont"), "did you mean 'count'?"));
  EXPECT_TRUE(has(refusal({"--prompt", ""}), "--prompt is empty"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--temperature", "-1"}), "--temperature -1: it is a number from 0 on"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--top-p", "0"}), "--top-p 0: it is a share above 0"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--top-p", "1.5"}), "--top-p 1.5"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--top-k", "-2"}), "--top-k -2"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--tokens", "0"}), "not a whole number from 1 on"));
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--step", "7"}), "there is no checkpoint of step 7"));
  setenv("XDG_CACHE_HOME", (*folder_ / "cache").c_str(), 1);
  EXPECT_TRUE(has(refusal({"--prompt", "one", "--tokenizer", "bpe"}), "lockstep data get gpt2-bpe"));
  unsetenv("XDG_CACHE_HOME");
}

TEST_F(Generate, IsOfModelsOfText) {
  const std::string recipe = folder_->write("blobs.toml", R"(
steps = 2
[data]
train = "blobs:samples=100,dims=4,classes=2"
)");
  const auto trained = answer_of({LOCKSTEP_PROGRAM, "train", recipe, "--name", "blobs", "--runs", runs()}, 100);
  ASSERT_EQ(trained.code, 0) << trained.errors;
  EXPECT_TRUE(has(refusal({"--prompt", "one"}, "blobs"),
                  "blobs was trained for 'classification'; only models of "
                  "task.name = \"next_token\""));
}

}  // namespace
}  // namespace lockstep::test
