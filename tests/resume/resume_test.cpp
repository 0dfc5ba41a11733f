// Killed in the middle of an epoch and started again, with another number of ranks and
// another batch size: the samples are those of a run that nobody disturbed.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/order.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSamples = 20'000;

class Resume : public ::testing::TestWithParam<const char*> {
 protected:
  Resume() {
    std::string bytes = data::npy_header(c10::ScalarType::Byte, {kSamples, 64});
    bytes.append(kSamples * 64, 'x');
    std::ofstream(folder_ / "set.npy", std::ios::binary) << bytes;
  }

  std::vector<std::string> command(int ranks, int batch) const {
    return {LOCKSTEP_PROGRAM,
            "launch",
            "-n",
            std::to_string(ranks),
            "--bind",
            "none",
            "--",
            LOCKSTEP_RESUME,
            folder_ / "set.npy",
            std::to_string(batch),
            folder_ / "position",
            GetParam()};
  }
  std::int64_t position() const {
    std::int64_t epoch = 0, sample = 0;
    std::ifstream(folder_ / "position") >> epoch >> sample;
    return epoch * kSamples + sample;
  }
  /// What was read of each place in the order.
  static void collect(const std::string& output, std::int64_t below,
                      std::map<std::int64_t, std::vector<std::int64_t>>& seen) {
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::int64_t place = 0, count = 0, id = 0;
      words >> place >> count;
      for (; words >> id; ++place) {
        if (place < below) seen[place].push_back(id);
      }
    }
  }
  const test::TemporaryFolder folder_;
};

TEST_P(Resume, ContinuesTheSameSequence) {
  std::map<std::int64_t, std::vector<std::int64_t>> seen;
  {
    Background run(command(3, 32));
    ASSERT_TRUE(run.waits_for("\n", 60)) << run.errors();
    // One rank, not the launcher.
    pid_t victim = -1;
    for (const pid_t process : run.processes()) {
      std::ifstream name("/proc/" + std::to_string(process) + "/comm");
      std::string word;
      if (name >> word && word == "resume") victim = process;
    }
    ASSERT_GT(victim, 0);
    kill(victim, SIGKILL);
    EXPECT_EQ(run.wait(), 128 + SIGKILL);
    collect(run.output(), position(), seen);
  }
  const std::int64_t stopped = position();
  ASSERT_GT(stopped, 0);
  ASSERT_LT(stopped, kSamples) << "it was killed in the middle";
  Background rest(command(2, 300));
  ASSERT_EQ(rest.wait(60), 0) << rest.errors();
  collect(rest.output(), kSamples, seen);

  data::OrderOptions options;
  options.samples = kSamples;
  options.seed = 1;
  const auto order = data::make_order("shuffle", options);
  ASSERT_EQ(static_cast<std::int64_t>(seen.size()), kSamples);
  for (const auto& [place, ids] : seen) ASSERT_EQ(ids, std::vector<std::int64_t>{order->at(0, place)}) << place;
  EXPECT_TRUE(rest.all_gone(2));
}

TEST_P(Resume, RefusesWhatIsNoPosition) {
  const auto refused = [&](const std::string& batch, const std::string& named) {
    Background run({LOCKSTEP_RESUME, folder_ / "set.npy", batch, folder_ / "position", GetParam()});
    EXPECT_EQ(run.wait(60), 2) << run.errors();
    EXPECT_TRUE(has(run.errors(), named)) << run.errors();
  };
  refused("abc", "BATCH is 'abc'");
  refused("0", "BATCH is '0'");
  std::ofstream(folder_ / "position") << "garbage\n";
  refused("32", "position holds no position, EPOCH SAMPLE");
}

INSTANTIATE_TEST_SUITE_P(Caches, Resume, testing::Values("none", "node", "cluster"));

}  // namespace
}  // namespace lockstep::test
