// `lockstep train` with parallel.offload as a user starts it: a model that does not fit into memory, a disk
// that is too small, a process that is killed.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/testing.h"
#include "memory_group.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;

class OutOfCore : public testing::Test {
 protected:
  OutOfCore() {
    folder_.write("gpt.toml", R"(
steps = 4
batch = 2
[data]
train = "tokens:samples=64,length=32,vocabulary=256"
[task]
name = "next_token"
vocabulary = 256
[model]
name = "gpt"
width = 256
layers = 72
heads = 8
[optimizer]
name = "adamw"
lr = 0.0003
[parallel]
zero = 3
)");
    fs::create_directory(disk());
  }
  std::string disk() const { return folder_ / "disk"; }
  std::vector<std::string> train(const std::string& name, const std::vector<std::string>& settings) const {
    std::vector<std::string> words{
        LOCKSTEP_PROGRAM, "train",         folder_ / "gpt.toml", "-n", "1", "--bind", "none", "--json", "--name", name,
        "--runs",         folder_ / "runs"};
    words.push_back("parallel.offload_folder=\"" + disk() + "\"");
    words.insert(words.end(), settings.begin(), settings.end());
    return words;
  }
  const TemporaryFolder folder_;
};

/// AdamW in float32 has 16 bytes for each of 57 million parameters.
TEST_F(OutOfCore, TrainsWhatDoesNotFitIntoMemory) {
  constexpr double kTimeout_s = 100;
  std::int64_t base = 0;
  // Before there is a group, whose peak has pages of the program's files that it is the first to read.
  const Answer roomy = answer_of(train("roomy", {"steps=2"}), kTimeout_s);
  ASSERT_EQ(roomy.code, 0) << roomy.errors;
  {
    const MemoryGroup group;
    if (!group.missing().empty()) GTEST_SKIP() << group.missing();
    const Answer small = answer_of(
        group.within(train("small", {"model.width=16", "model.layers=1", "parallel.offload=all"})), kTimeout_s);
    ASSERT_EQ(small.code, 0) << small.errors;
    base = group.peak();
  }
  if (base == 0) GTEST_SKIP() << "the kernel does not say how much memory a group has used";
  const auto use = nlohmann::json::parse(roomy.output).at("memory");
  std::int64_t state = 0;
  for (const auto* kind : {"weights_bytes", "gradients_bytes", "optimizer_bytes"}) {
    state += use.at(kind).get<std::int64_t>();
  }
  ASSERT_GT(state, 850 * kMiB);

  // Gradients stay in memory, a quarter of it.
  const std::int64_t limit = base + state * 6 / 10;
  ASSERT_LT(limit, state);
  {
    const MemoryGroup group;
    group.limit(limit);
    const Answer offloaded = answer_of(group.within(train("offloaded", {"parallel.offload=all"})), kTimeout_s);
    EXPECT_EQ(offloaded.code, 0) << offloaded.errors;
    const auto result = nlohmann::json::parse(offloaded.output);
    EXPECT_EQ(result.at("steps"), 4);
    EXPECT_EQ(result.at("memory").at("weights_bytes"), 0);
    EXPECT_EQ(result.at("memory").at("optimizer_bytes"), 0);
    EXPECT_EQ(result.at("memory").at("disk_bytes").get<std::int64_t>() +
                  result.at("memory").at("gradients_bytes").get<std::int64_t>(),
              state);
    EXPECT_TRUE(fs::is_empty(disk()));
  }
  const MemoryGroup group;
  group.limit(limit);
  const Answer refused = answer_of(group.within(train("without", {"--dry-run"})), kTimeout_s);
  EXPECT_EQ(refused.code, 2) << refused.errors;
  const auto foretold = nlohmann::json::parse(refused.output);
  EXPECT_FALSE(foretold.at("fits").get<bool>()) << refused.output;
  EXPECT_TRUE(has(foretold.at("remedies").dump(), "parallel.offload=")) << refused.output;
  const Answer granted = answer_of(group.within(train("with", {"parallel.offload=all", "--dry-run"})), kTimeout_s);
  EXPECT_EQ(granted.code, 0) << granted.output << granted.errors;
  const Answer without = answer_of(group.within(train("without", {})), kTimeout_s);
  EXPECT_EQ(without.code, 128 + SIGKILL) << without.errors;
}

TEST_F(OutOfCore, SaysAtTheStartThatTheDiskIsTooSmall) {
  if (mount("tmpfs", disk().c_str(), "tmpfs", 0, "size=64m") != 0)
    GTEST_SKIP() << "a file system cannot be mounted here";
  const Answer answer = answer_of(train("full", {"parallel.offload=all"}), 60);
  EXPECT_TRUE(fs::is_empty(disk()));
  umount2(disk().c_str(), MNT_DETACH);
  EXPECT_EQ(answer.code, 1);
  EXPECT_TRUE(has(answer.errors, "parallel.offload needs ")) << answer.errors;
  EXPECT_TRUE(has(answer.errors, "which has 64 MiB left: No space left on device")) << answer.errors;
  EXPECT_TRUE(has(answer.errors, "set parallel.offload_folder")) << answer.errors;
}

TEST_F(OutOfCore, LeavesNothingBehindWhenItIsKilled) {
  Background run(
      train("killed", {"parallel.offload=all", "steps=100000", "model.width=64", "checkpoints.every_steps=1"}));
  const fs::path checkpoints = folder_ / "runs/killed/checkpoints";
  for (int i = 0; i < 600 && !fs::exists(checkpoints / "0000000002"); ++i) usleep(100000);
  ASSERT_TRUE(fs::exists(checkpoints));
  for (const pid_t process : run.processes()) kill(process, SIGKILL);
  run.wait();
  EXPECT_TRUE(run.all_gone(30));
  EXPECT_TRUE(fs::is_empty(disk()));
}

}  // namespace
}  // namespace lockstep::test
