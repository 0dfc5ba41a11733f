// `lockstep train` and `lockstep runs` as a user starts them, disturbed for real.
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class Train : public testing::Test {
 protected:
  Train() : folder_(fs::path(testing::TempDir()) / ("train_test_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    std::ofstream(folder_ / "blobs.toml") << R"(
steps = 300
batch = 32
exact = true
seed = 7
[data]
train = "blobs:samples=1000,dims=16,classes=4"
test = "blobs:samples=200,dims=16,classes=4"
[model]
name = "mlp"
hidden = [32, 32]
dropout = 0.1
[optimizer]
name = "adam"
lr = 0.003
[checkpoints]
every_steps = 20
)";
  }
  ~Train() override { fs::remove_all(folder_); }

  std::vector<std::string> command(std::vector<std::string> words) const {
    words.insert(words.begin(), LOCKSTEP_PROGRAM);
    words.insert(words.end(), {"--runs", (folder_ / "runs").string()});
    return words;
  }
  std::vector<std::string> train(int ranks, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "train", (folder_ / "blobs.toml").string(), "-n", std::to_string(ranks), "--bind", "none", "--print-hash"};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  }
  std::vector<std::string> resume(const std::string& name, int ranks) const {
    return command({"runs", "resume", name, "-n", std::to_string(ranks), "--bind", "none", "--print-hash"});
  }
  /// The line of 32 digits.
  static std::string hash(Background& run) {
    EXPECT_EQ(run.wait(100), 0) << run.errors();
    std::string text = run.output();
    if (!text.empty() && text.back() == '\n') text.pop_back();
    EXPECT_EQ(text.size(), 32U) << text;
    return text;
  }
  std::string undisturbed() {
    Background run(train(2));
    return hash(run);
  }
  /// Whether a checkpoint of this step or a later one is there.
  bool has_checkpoint(const std::string& run, std::int64_t step) const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / "runs" / run / "checkpoints", none)) {
      if (entry.path().extension() != ".new" && std::stoll(entry.path().filename().string()) >= step) return true;
    }
    return false;
  }
  bool waits_for_checkpoint(const std::string& run, std::int64_t step) const {
    for (int i = 0; i < 3000 && !has_checkpoint(run, step); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return has_checkpoint(run, step);
  }
  static pid_t rank_of(const Background& run, const std::string& number) {
    for (const pid_t process : run.processes()) {
      std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      if (has(text, std::string("LOCKSTEP_RANK=") + number + '\0')) return process;
    }
    return -1;
  }

  fs::path folder_;
};

TEST_F(Train, GivesOneHashOnAnyNumberOfRanks) {
  const std::string wanted = undisturbed();
  for (const int ranks : {1, 3, 4}) {
    Background run(train(ranks));
    EXPECT_EQ(hash(run), wanted) << ranks;
  }
  EXPECT_TRUE(fs::exists(folder_ / "runs/blobs-1/run.json"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/blobs-4/events.out.tfevents.lockstep"));
  Background list(command({"runs", "--json"}));
  ASSERT_EQ(list.wait(), 0);
  const auto runs = nlohmann::json::parse(list.output());
  ASSERT_EQ(runs.size(), 4U);
  for (const auto& run : runs) {
    EXPECT_EQ(run.at("about").at("state"), "done");
    EXPECT_EQ(run.at("about").at("result").at("hash"), wanted);
  }
}

TEST_F(Train, GoesOnByItselfWhenARankIsKilled) {
  const std::string wanted = undisturbed();
  Background run(train(3, {"--name", "killed", "--restarts", "2"}));
  ASSERT_TRUE(waits_for_checkpoint("killed", 40)) << run.errors();
  const pid_t victim = rank_of(run, "1");
  ASSERT_GT(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_EQ(hash(run), wanted);
  EXPECT_TRUE(has(run.errors(), "was killed by signal 9")) << run.errors();
  EXPECT_TRUE(run.all_gone(5));
}

TEST_F(Train, SavesWhenAskedToEndAndIsResumed) {
  const std::string wanted = undisturbed();
  {
    Background run(train(2, {"--name", "asked"}));
    ASSERT_TRUE(waits_for_checkpoint("asked", 40)) << run.errors();
    run.signal(SIGTERM);
    ASSERT_EQ(run.wait(60), 75) << run.errors();
    EXPECT_TRUE(has(run.errors(), "lockstep runs resume asked")) << run.errors();
  }
  Background again(train(2, {"--name", "asked"}));
  EXPECT_EQ(again.wait(), 2);
  EXPECT_TRUE(has(again.errors(), "there is a run in")) << again.errors();
  Background rest(resume("asked", 3));
  EXPECT_EQ(hash(rest), wanted);
}

TEST_F(Train, PassesOverASpoiltCheckpoint) {
  const std::string wanted = undisturbed();
  {
    Background run(train(2, {"--name", "spoilt"}));
    ASSERT_TRUE(waits_for_checkpoint("spoilt", 60)) << run.errors();
    run.signal(SIGTERM);
    ASSERT_EQ(run.wait(60), 75) << run.errors();
  }
  std::set<fs::path> all;
  for (const auto& entry : fs::directory_iterator(folder_ / "runs/spoilt/checkpoints")) all.insert(entry.path());
  ASSERT_GE(all.size(), 2U);
  fs::resize_file(*all.rbegin() / "part-00001.safetensors", 100);
  Background rest(resume("spoilt", 1));
  EXPECT_EQ(hash(rest), wanted);
  EXPECT_TRUE(has(rest.errors(), "passing over the checkpoint of step")) << rest.errors();
}

TEST_F(Train, OutlivesAFullDisk) {
  const std::string wanted = undisturbed();
  const fs::path disk = folder_ / "runs";
  fs::remove_all(disk);
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "a file system cannot be mounted here";
  struct Unmount {
    fs::path path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } const unmount{disk};
  {
    Background run(train(2, {"--name", "full"}));
    ASSERT_TRUE(waits_for_checkpoint("full", 40)) << run.errors();
    std::ofstream(disk / "filler") << std::string(1 << 20, 'x');
    EXPECT_EQ(run.wait(60), 1) << run.errors();
    EXPECT_TRUE(has(run.errors(), "is not written")) << run.errors();
  }
  fs::remove(disk / "filler");
  Background rest(resume("full", 3));
  EXPECT_EQ(hash(rest), wanted);
}

TEST_F(Train, LeavesWhatPythonReads) {
  {
    Background run(train(2, {"--name", "read"}));
    ASSERT_TRUE(waits_for_checkpoint("read", 40)) << run.errors();
    run.signal(SIGTERM);
    ASSERT_EQ(run.wait(60), 75) << run.errors();
  }
  Background rest(resume("read", 2));
  hash(rest);
  const std::string weights = folder_ / "weights.safetensors";
  Background exported(command({"runs", "export", "read", weights}));
  ASSERT_EQ(exported.wait(), 0) << exported.errors();
  Background reader({LOCKSTEP_PYTHON, LOCKSTEP_READ_RUN, folder_ / "runs/read", weights});
  const int code = reader.wait(60);
  if (code == 77) GTEST_SKIP() << reader.output();
  EXPECT_EQ(code, 0) << reader.output() << reader.errors();
}

TEST_F(Train, ExportsAveragedWeights) {
  Background run(train(2, {"--name", "averaged", "callbacks.ema.decay=0.9"}));
  hash(run);
  const auto bytes_of = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  for (const char* name : {"last", "ema"}) {
    auto words = command({"runs", "export", "averaged", folder_ / name});
    if (std::string(name) == "ema") words.emplace_back("--ema");
    Background exported(words);
    ASSERT_EQ(exported.wait(), 0) << exported.errors();
    EXPECT_TRUE(has(exported.output(), "6 tensors of step 300")) << exported.output();
  }
  const std::string last = bytes_of(folder_ / "last"), averages = bytes_of(folder_ / "ema");
  EXPECT_EQ(last.size(), averages.size());
  EXPECT_NE(last, averages);

  Background plain(train(1, {"--name", "plain", "steps=5"}));
  hash(plain);
  Background none(command({"runs", "export", "plain", folder_ / "none", "--ema"}));
  EXPECT_EQ(none.wait(), 2);
  EXPECT_TRUE(has(none.errors(), "[callbacks.ema]")) << none.errors();
}

TEST_F(Train, EndsEarly) {
  auto words =
      train(2, {"--name", "early", "--json", "steps=3000", "data.validation='blobs:samples=100,dims=16,classes=4'",
                "callbacks.early_stopping={patience=2, min_delta=100}"});
  Background run(words);
  ASSERT_EQ(run.wait(100), 0) << run.errors();
  const auto result = nlohmann::json::parse(run.output());
  EXPECT_EQ(result.at("steps"), 96);  // three epochs of 32 steps
  EXPECT_GE(result.at("imbalance").get<double>(), 1);
  EXPECT_LE(result.at("imbalance").get<double>(), 2);
  EXPECT_GT(result.at("waited_for_ranks_share").get<double>(), 0);
  EXPECT_LT(result.at("waited_for_ranks_share").get<double>(), 1);
  EXPECT_TRUE(has(run.errors(), "% of it for other ranks")) << run.errors();
  EXPECT_TRUE(has(run.errors(), "slowest rank +")) << run.errors();
  EXPECT_TRUE(has(result.at("ended_early").get<std::string>(), "2 validations without a better loss"));
  EXPECT_TRUE(has(run.errors(), "ended early by early_stopping")) << run.errors();
  EXPECT_TRUE(has_checkpoint("early", 96));
}

TEST_F(Train, FindsALearningRate) {
  const auto find = [this](int ranks, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", (folder_ / "blobs.toml").string(), "-n", std::to_string(ranks), "--bind",
                               "none", "--find-lr", "--lr-steps", "60"});
    return command(more);
  };
  std::vector<std::string> texts;
  for (const int ranks : {1, 2, 3}) {
    Background run(find(ranks, {"--json"}));
    ASSERT_EQ(run.wait(100), 0) << run.errors();
    texts.push_back(run.output());
    const auto json = nlohmann::json::parse(run.output());
    EXPECT_GT(json.at("suggested").get<double>(), 1e-6);
    EXPECT_LT(json.at("suggested").get<double>(), 10);
    EXPECT_GT(json.at("points").size(), 20U);
    EXPECT_EQ(texts.back(), texts.front());  // the recipe is of exact mode
  }
  // Of each rank's rate the recipe's is a third.
  Background scaled(find(3, {"--json", "exact=false", "scale_lr=linear", "--lr-from", "0.001", "--lr-to", "1"}));
  ASSERT_EQ(scaled.wait(100), 0) << scaled.errors();
  EXPECT_NEAR(nlohmann::json::parse(scaled.output()).at("points").at(0).at("lr").get<double>(), 0.001, 1e-9);
  Background table(find(2, {}));
  ASSERT_EQ(table.wait(100), 0) << table.errors();
  EXPECT_TRUE(has(table.output(), "suggested: optimizer.lr=")) << table.output();
  EXPECT_TRUE(has(table.output(), "<- falls fastest")) << table.output();
  Background wrong(find(2, {"--lr-from", "5", "--lr-to", "1"}));
  EXPECT_EQ(wrong.wait(), 2) << wrong.errors();
  Background alone(train(1, {"--lr-from", "5"}));
  EXPECT_EQ(alone.wait(), 2) << alone.errors();
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Train, IsMeasuredBesideItself) {
  const std::string file = folder_ / "bench.json";
  Background bench({LOCKSTEP_PROGRAM, "bench", "train", "--model", "cnn", "-n", "2", "--rounds", "1", "--warm-up", "2",
                    "--steps", "2", "--peers", "none", "--json", file});
  ASSERT_EQ(bench.wait(60), 0) << bench.errors();
  std::ifstream in(file);
  const auto rows = nlohmann::json::parse(in).at("rows");
  ASSERT_EQ(rows.size(), 2U);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("ranks"), 2);
    EXPECT_EQ(row.at("reps"), 2);
    EXPECT_GT(row.at("samples_per_s"), 0);
    EXPECT_GE(row.at("exposed_share"), 0);
  }
  EXPECT_EQ(rows[1].at("who"), "ceiling");
  Background unknown({LOCKSTEP_PROGRAM, "bench", "train", "--model", "cn"});
  EXPECT_EQ(unknown.wait(), 2);
  EXPECT_TRUE(has(unknown.errors(), "did you mean 'cnn'?")) << unknown.errors();
}

TEST_F(Train, SaysWhatIsWrongOnce) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"optimizer.lrr=1"}, "unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"},
      {{"model.name=nlp"}, "unknown model 'nlp'; did you mean 'mlp'?"},
      {{"shards=12"}, "a power of two"},
      {{"data.train=/no/such/file.npy"}, "/no/such/file.npy"},
  };
  for (const auto& [settings, message] : cases) {
    Background run(train(3, settings));
    EXPECT_EQ(run.wait(), 2) << run.errors();
    EXPECT_EQ(occurrences(run.errors(), message), 1) << run.errors();
  }
  Background none(command({"runs", "show", "nothing"}));
  EXPECT_EQ(none.wait(), 2);
  EXPECT_TRUE(has(none.errors(), "there is no run 'nothing'")) << none.errors();
}

}  // namespace
}  // namespace lockstep::test
