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
#include "lockstep/core/cpu.h"
#include "lockstep/core/testing.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class Train : public testing::Test {
 protected:
  Train() {
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
  nlohmann::json about(const std::string& run) const {
    std::ifstream file(folder_ / "runs" / run / "run.json");
    return nlohmann::json::parse(file);
  }
  /// As `runs show` tells it.
  std::string state_now(const std::string& run) const {
    Background shown(command({"runs", "show", run, "--json"}));
    EXPECT_EQ(shown.wait(60), 0) << shown.errors();
    return nlohmann::json::parse(shown.output()).at("state");
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

  const test::TemporaryFolder folder_;
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

TEST_F(Train, IsDrawn) {
  (void)undisturbed();
  const std::string picture = folder_ / "curves.svg";
  const auto plot = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"runs", "plot", "blobs-1", "-o", picture});
    return Background(command(words));
  };
  Background losses = plot({});
  ASSERT_EQ(losses.wait(60), 0) << losses.errors();
  std::ifstream file(picture);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(has(text, "<polyline")) << text;
  EXPECT_TRUE(has(text, "train/loss")) << text;
  Background unknown = plot({"--of", "train/los"});
  EXPECT_EQ(unknown.wait(60), 2);
  EXPECT_TRUE(has(unknown.errors(), "has no 'train/los' to draw; there is")) << unknown.errors();
  EXPECT_TRUE(has(unknown.errors(), "train/loss")) << unknown.errors();
}

TEST_F(Train, GoesOnByItselfWhicheverRankIsKilled) {
  const std::string wanted = undisturbed();
  for (const int rank : {0, 1, 2}) {
    const std::string name = "killed-" + std::to_string(rank);
    Background run(train(3, {"--name", name, "--restarts", "2"}));
    ASSERT_TRUE(waits_for_checkpoint(name, 40)) << run.errors();
    const pid_t victim = run.rank(rank);
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_EQ(hash(run), wanted) << rank;
    EXPECT_TRUE(has(run.errors(), "was killed by signal 9")) << run.errors();
    EXPECT_TRUE(run.all_gone(5));
  }
}

TEST_F(Train, SavesBeforeSlurmEndsIt) {
  const std::string wanted = undisturbed();
  Background run(train(2, {"--name", "warned", "--restarts", "1"}));
  ASSERT_TRUE(waits_for_checkpoint("warned", 40)) << run.errors();
  run.signal(SIGUSR1);
  ASSERT_EQ(run.wait(60), 75) << run.errors();
  Background rest(resume("warned", 1));
  EXPECT_EQ(hash(rest), wanted);
}

// Before its first step a run leaves nothing, and errors are where the user made them.
TEST_F(Train, ThatIsRefusedLeavesItsNameFree) {
  std::ofstream(folder_ / "typo.toml") << "# a typo\n\nsteps = 20\n[data]\ntrain = 'blobs'\n[optimizer]\nlrr = 1\n";
  Background typo(command({"train", (folder_ / "typo.toml").string(), "--name", "mine"}));
  EXPECT_EQ(typo.wait(60), 2);
  EXPECT_TRUE(has(typo.errors(), "typo.toml:7: unknown key 'optimizer.lrr'")) << typo.errors();
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"optimizer.lr=abc"}, {"--resume", "optimizer.lr=abc"}, {"-n", "0"}}) {
    auto words = train(2, {"--name", "mine"});
    words.insert(words.end(), wrong.begin(), wrong.end());
    Background refused(words);
    EXPECT_EQ(refused.wait(60), 2);
    EXPECT_FALSE(fs::exists(folder_ / "runs/mine")) << refused.errors();
    if (wrong.back() == "optimizer.lr=abc") {
      EXPECT_TRUE(has(refused.errors(), "command line: optimizer.lr is a string")) << refused.errors();
    }
  }
  Background run(train(1, {"--name", "mine", "steps=20"}));
  hash(run);
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
  {
    Background run(train(2, {"--name", "interrupted"}));
    ASSERT_TRUE(waits_for_checkpoint("interrupted", 40)) << run.errors();
    run.signal(SIGINT);
    ASSERT_EQ(run.wait(60), 75) << run.errors();
    EXPECT_EQ(about("interrupted").at("state"), "stopped");
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

TEST_F(Train, KeepsNewSettingsOnlyIfTheyAreGood) {
  Background first(train(2, {"--name", "typo", "steps=20"}));
  hash(first);
  const auto before = about("typo");
  const std::pair<std::string, std::string> cases[] = {
      {"epoch=10", "unknown key 'epoch'; did you mean 'epochs'?"},
      {"model.hidden=[16]", "it is of another model"},
      {"seed=8", "its seed was 7 and is 8 now"},
  };
  for (const auto& [setting, message] : cases) {
    auto words = resume("typo", 2);
    words.insert(words.end(), {setting, "steps=40"});
    Background wrong(words);
    EXPECT_EQ(wrong.wait(60), 2) << setting;
    EXPECT_EQ(occurrences(wrong.errors(), message), 1) << wrong.errors();
    EXPECT_FALSE(has(wrong.errors(), "the run has failed")) << wrong.errors();
    EXPECT_EQ(about("typo"), before) << setting;
  }
  auto words = resume("typo", 2);
  words.emplace_back("steps=40");
  Background further(words);
  hash(further);
  EXPECT_EQ(about("typo").at("state"), "done");
  EXPECT_EQ(about("typo").at("result").at("steps"), 40);
  EXPECT_TRUE(has(about("typo").at("recipe").get<std::string>(), "steps = 40")) << about("typo");
}

TEST_F(Train, HasNothingLeftToDoAtItsEnd) {
  Background whole(train(2, {"--name", "ended", "steps=40"}));
  const std::string wanted = hash(whole);
  const auto before = about("ended").at("result");
  Background again(resume("ended", 1));
  EXPECT_EQ(hash(again), wanted);
  EXPECT_TRUE(has(again.errors(), "nothing left to do after step 40")) << again.errors();
  EXPECT_FALSE(has(again.errors(), "steps in")) << again.errors();
  const auto after = about("ended").at("result");
  EXPECT_EQ(about("ended").at("state"), "done");
  for (const char* key : {"steps", "skipped", "loss", "hash", "evaluations"}) EXPECT_EQ(after.at(key), before.at(key));
}

TEST_F(Train, IsOfOneProcessAtATime) {
  {
    Background run(train(2, {"--name", "mine", "steps=1000000"}));
    ASSERT_TRUE(waits_for_checkpoint("mine", 20)) << run.errors();
    Background other(resume("mine", 1));
    EXPECT_EQ(other.wait(60), 2) << other.errors();
    EXPECT_TRUE(has(other.errors(), "the run 'mine' is being trained by process " + std::to_string(run.pid()) + " on "))
        << other.errors();
    EXPECT_TRUE(has(other.errors(), "wait until it ends")) << other.errors();
    EXPECT_EQ(state_now("mine"), "running");
    kill(run.pid(), SIGKILL);
    ASSERT_EQ(run.wait(60), 128 + SIGKILL);
    ASSERT_TRUE(run.all_gone(10));
    EXPECT_EQ(state_now("mine"), "died");
  }
  auto words = resume("mine", 1);
  words.emplace_back("steps=1");
  Background rest(words);
  hash(rest);
  EXPECT_EQ(about("mine").at("state"), "done");
}

/// In place of mpirun.
class TrainOnHosts : public Train {
 protected:
  void mpirun_is(const std::string& script) const {
    const fs::path path = folder_ / "mpirun";
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    fs::permissions(path, fs::perms::owner_all);
    setenv("LOCKSTEP_MPIRUN", path.c_str(), 1);
  }
  ~TrainOnHosts() override { unsetenv("LOCKSTEP_MPIRUN"); }
  std::vector<std::string> on_hosts(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "train", (folder_ / "blobs.toml").string(), "--hosts", "elsewhere:1", "steps=20", "--print-hash"};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  }

  // Starts one rank, here.
  static constexpr const char kOneRank[] =
      "while [ \"$2\" != launched-by-mpirun ]; do shift; done\n"
      "export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1\n"
      "exec \"$@\"";
};

TEST_F(TrainOnHosts, SaysHowItEnded) {
  mpirun_is(kOneRank);
  Background run(on_hosts({"--name", "far"}));
  hash(run);
  EXPECT_EQ(about("far").at("state"), "done");
  EXPECT_EQ(about("far").at("result").at("steps"), 20);
  mpirun_is("touch " + (folder_ / "runs/lost/curves").string() + "; exit 9");
  Background lost(on_hosts({"--name", "lost"}));
  EXPECT_EQ(lost.wait(60), 9) << lost.errors();
  EXPECT_EQ(about("lost").at("state"), "failed");
  mpirun_is("echo 'ssh: no such host' >&2; exit 255");
  Background unreached(on_hosts({"--name", "unreached"}));
  EXPECT_EQ(unreached.wait(60), 1) << unreached.errors();
  EXPECT_TRUE(has(unreached.errors(), "mpirun could not start ranks on elsewhere:1")) << unreached.errors();
  EXPECT_FALSE(fs::exists(folder_ / "runs/unreached"));
  mpirun_is("touch " + (folder_ / "runs/broken/curves").string() + "; exit 255");
  Background broken(on_hosts({"--name", "broken"}));
  EXPECT_EQ(broken.wait(60), 255) << broken.errors();
  EXPECT_EQ(about("broken").at("state"), "failed");
  setenv("LOCKSTEP_MPIRUN", "/no/such/mpirun", 1);
  Background none(on_hosts({"--name", "none"}));
  EXPECT_EQ(none.wait(60), 2) << none.errors();
  EXPECT_EQ(occurrences(none.errors(), "/no/such/mpirun"), 1) << none.errors();
  EXPECT_FALSE(fs::exists(folder_ / "runs/none"));  // it had not begun
}

// By SIGTERM and SIGINT mpirun would end ranks that are to save.
TEST_F(TrainOnHosts, HearsSignals) {
  const fs::path started = folder_ / "started";
  mpirun_is("trap 'exit 33' USR1\ntouch " + started.string() + "\nwhile :; do sleep 0.05; done");
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    fs::remove(started);
    Background run(on_hosts({}));
    for (int i = 0; i < 600 && !fs::exists(started); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(fs::exists(started)) << run.errors();
    run.signal(signal);
    EXPECT_EQ(run.wait(30), 33) << run.errors();
  }
}

TEST_F(TrainOnHosts, FindsALearningRateAndLeavesNothing) {
  mpirun_is(kOneRank);
  Background run(on_hosts({"--find-lr", "--lr-steps", "30"}));
  EXPECT_EQ(run.wait(60), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), "suggested: optimizer.lr=")) << run.output();
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  mpirun_is("exit 255");
  Background unreached(on_hosts({"--find-lr"}));
  EXPECT_EQ(unreached.wait(60), 1) << unreached.errors();
  EXPECT_TRUE(has(unreached.errors(), "mpirun could not start ranks on elsewhere:1")) << unreached.errors();
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
}

TEST_F(Train, ListsRunsWhoseFiguresAreNoNumbers) {
  const auto write = [this](const std::string& name, const std::string& text) {
    fs::create_directories(folder_ / "runs" / name);
    std::ofstream(folder_ / "runs" / name / "run.json") << text;
  };
  write("good", R"({"recipe": "steps = 3\nseed = 1", "state": "done", "result": {"steps": 3, "loss": 0.25}})");
  write("nan", R"({"recipe": "steps = 4", "state": "done", "result": {"steps": 4, "loss": null,
                   "evaluations": [{"of": "test", "figures": {"accuracy": 0.5, "loss": null}}]}})");
  write("broken", "{");
  Background list(command({"runs"}));
  ASSERT_EQ(list.wait(), 0) << list.errors();
  EXPECT_TRUE(has(list.output(), "step 3  loss 0.2500")) << list.output();
  EXPECT_TRUE(has(list.output(), "step 4  loss nan  test: accuracy 0.5000 loss nan")) << list.output();
  EXPECT_TRUE(has(list.output(), "does not tell of a run")) << list.output();
  Background compared(command({"runs", "compare", "good", "nan", "--json"}));
  ASSERT_EQ(compared.wait(), 0) << compared.errors();
  const auto json = nlohmann::json::parse(compared.output());
  EXPECT_EQ(json.at("runs"), nlohmann::json({"good", "nan"}));
  EXPECT_EQ(json.at("settings"), nlohmann::json::parse(R"({"steps": [3, 4], "seed": [1, null]})"));
  EXPECT_EQ(json.at("results").at(0).at("loss"), 0.25);
  EXPECT_TRUE(json.at("results").at(1).at("loss").is_null());
}

TEST_F(Train, ExportsTheBestCheckpointOrThatOfAStep) {
  // Clouds elsewhere: validations get worse, and the first, after the 32 steps of an epoch, is best.
  Background run(train(2, {"--name", "best", "steps=200", "checkpoints.every_steps=90",
                           "data.validation='blobs:samples=100,dims=16,classes=4,seed=5'"}));
  hash(run);
  double lowest = 1e9;
  std::int64_t best = 0;
  const auto evaluations = about("best").at("result").at("evaluations");
  for (const auto& evaluation : evaluations) {
    const double loss = evaluation.at("figures").at("loss").get<double>();
    if (evaluation.at("of") == "validation" && loss < lowest) {
      lowest = loss;
      best = evaluation.at("step").get<std::int64_t>();
    }
  }
  ASSERT_LT(best, 180);
  const auto exported = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"runs", "export", "best", folder_ / "weights"};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  };
  for (const auto& [words, step] : {std::pair(std::vector<std::string>{"--best"}, std::to_string(best)),
                                    std::pair(std::vector<std::string>{"--step", "180"}, std::string("180")),
                                    std::pair(std::vector<std::string>{}, std::string("200"))}) {
    Background one(exported(words));
    EXPECT_EQ(one.wait(), 0) << one.errors();
    EXPECT_TRUE(has(one.output(), "6 tensors of step " + step + " in ")) << one.output();
  }
  Background missing(exported({"--step", "179"}));
  EXPECT_EQ(missing.wait(), 2);
  EXPECT_TRUE(has(missing.errors(), "there are those of " + std::to_string(best) + ", 180, 200")) << missing.errors();
  Background both(exported({"--step", "180", "--best"}));
  EXPECT_EQ(both.wait(), 2);
  Background plain(train(1, {"--name", "plain", "steps=5"}));
  hash(plain);
  Background none(command({"runs", "export", "plain", folder_ / "none", "--best"}));
  EXPECT_EQ(none.wait(), 2);
  EXPECT_TRUE(has(none.errors(), "set data.validation")) << none.errors();
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
  std::ofstream(folder_ / "grows.toml") << R"(
batch_per_rank = 10
scale_lr = "linear"
[data]
train = "blobs:samples=1000,dims=16,classes=4"
)";
  Background scaled(command({"train", (folder_ / "grows.toml").string(), "-n", "3", "--bind", "none", "--find-lr",
                             "--lr-steps", "60", "--json", "--lr-from", "0.001", "--lr-to", "1"}));
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

TEST_F(Train, GoesOnWithAsManyRanksAsBefore) {
  const auto newest = [this] {
    return train::CheckpointFolder((folder_ / "runs/two/checkpoints").string()).newest()->facts.at("ranks").get<int>();
  };
  Background two(train(2, {"--name", "two", "steps=20"}));
  ASSERT_EQ(two.wait(), 0) << two.errors();
  EXPECT_EQ(newest(), 2);
  EXPECT_EQ(about("two").at("result").at("ranks"), 2);
  EXPECT_EQ(about("two").at("result").at("hosts").size(), 1U);
  Background same(command({"runs", "compare", "two", "two"}));
  ASSERT_EQ(same.wait(), 0) << same.errors();
  EXPECT_TRUE(has(same.output(), "their recipes are the same\n(ranks)")) << same.output();
  // Of a run that has nothing left to do no setting changes.
  Background nothing(command({"runs", "resume", "two", "optimizer.lr=9"}));
  ASSERT_EQ(nothing.wait(), 0) << nothing.errors();
  EXPECT_TRUE(has(nothing.errors(), "nothing left to do")) << nothing.errors();
  EXPECT_FALSE(has(about("two").at("recipe").get<std::string>(), "lr = 9")) << about("two").at("recipe");
  const int expected = std::min(2, static_cast<int>(usable_cpus().size()));
  Background more(command({"runs", "resume", "two", "steps=30", "--bind", "none"}));
  ASSERT_EQ(more.wait(), 0) << more.errors();
  EXPECT_EQ(newest(), expected);
  // Of the newest that can be read.
  std::ofstream(folder_ / "runs/two/checkpoints/0000000030/manifest.json") << "{";
  Background rest(command({"runs", "resume", "two", "steps=35", "--bind", "none"}));
  ASSERT_EQ(rest.wait(), 0) << rest.errors();
  EXPECT_EQ(newest(), expected);
  Background alone(command({"runs", "resume", "two", "steps=40", "-n", "1"}));
  ASSERT_EQ(alone.wait(), 0) << alone.errors();
  EXPECT_EQ(newest(), 1);
  EXPECT_TRUE(has(about("two").at("recipe").get<std::string>(), "steps = 40"));
}

TEST_F(Train, DrawsWhatFitsOnALine) {
  for (const auto& [columns, bar] : {std::pair(160, true), std::pair(80, false), std::pair(50, false)}) {
    auto words = train(2, {"steps=60"});
    words.insert(words.begin(), {"/usr/bin/env", "LOCKSTEP_TERMINAL=" + std::to_string(columns)});
    Background run(words);
    ASSERT_EQ(run.wait(), 0) << run.errors();
    const std::string text = run.errors();
    const auto end = text.find('\r');
    ASSERT_NE(end, std::string::npos) << text;
    const auto begin = text.rfind("\033[K", end) + 3;
    const std::string line = text.substr(begin, end - begin);
    EXPECT_LT(line.size(), static_cast<std::size_t>(columns));
    EXPECT_TRUE(line.ends_with(" left")) << line;
    EXPECT_EQ(line.starts_with("["), bar) << line;
  }
}

TEST_F(Train, IsMeasuredBesideItself) {
  const std::string file = folder_ / "bench.json";
  Background bench({LOCKSTEP_PROGRAM, "bench", "train", "--model", "cnn", "-n", "2", "--rounds", "3", "--minutes",
                    "0.001", "--warm-up", "2", "--steps", "2", "--peers", "none", "--json", file});
  ASSERT_EQ(bench.wait(60), 0) << bench.errors();
  EXPECT_TRUE(has(bench.output(), "1 of 3 rounds in 0.001 minutes")) << bench.output();
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
}

TEST_F(Train, LeavesWhatWasMeasuredWhenItIsStopped) {
  const std::string file = folder_ / "bench.json";
  Background bench({LOCKSTEP_PROGRAM, "bench", "train", "--model", "cnn", "-n", "1", "--rounds", "1000", "--warm-up",
                    "2", "--steps", "1", "--peers", "none", "--json", file});
  ASSERT_TRUE(bench.waits_for("round 2 of 1000")) << bench.errors();
  bench.signal(SIGTERM);
  EXPECT_EQ(bench.wait(), 128 + SIGTERM);
  EXPECT_TRUE(bench.all_gone(20));
  std::ifstream in(file);
  EXPECT_GE(nlohmann::json::parse(in).at("rows").at(0).at("reps"), 1);
}

TEST_F(Train, IsMeasuredWithKnownModels) {
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
