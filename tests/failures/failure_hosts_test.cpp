// Failures of processes on several hosts, over the back-end hier. Run under
// with_hosts.sh -n 4: two ranks on each of four hosts, or as the test says.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "misbehaving.h"

namespace lockstep::test {
namespace {

constexpr int kRanks = 8;
constexpr double kDisagreement_s = 2;
constexpr double kDeath_s = 10;   // across hosts
constexpr double kTimeout_s = 4;  // news of ranks on other hosts take up to 2.5 s
constexpr double kGrace_s = 3;

std::vector<std::string> mpirun(std::vector<std::string> options, const std::string& mode, int culprit,
                                double timeout_s = 60) {
  std::vector<std::string> command = {LOCKSTEP_HOSTS, "mpirun", "--bind-to",
                                      "none",         "-x",     "LOCKSTEP_TIMEOUT=" + std::to_string(timeout_s)};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {LOCKSTEP_MISBEHAVE, mode, std::to_string(culprit)});
  return command;
}

std::vector<std::string> everywhere(const std::string& mode, int culprit, double timeout_s = 60) {
  return mpirun({"--map-by", "ppr:2:node", "-n", std::to_string(kRanks)}, mode, culprit, timeout_s);
}

/// Does something to the hosts themselves. Not as a Background: what it starts must stay.
void hosts(const std::string& arguments) {
  ASSERT_EQ(std::system((LOCKSTEP_HOSTS " " + arguments).c_str()), 0) << arguments;
}

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("LOCKSTEP_HOSTS_DIR") == nullptr) GTEST_SKIP() << "run it under tests/hosts/with_hosts.sh -n 4";
  }
};

void expect_disagreement(const std::string& mode, int culprit, const std::string& ours, const std::string& theirs) {
  SCOPED_TRACE(mode);
  Misbehaving misbehaving(everywhere(mode, culprit));
  expect_told(misbehaving, kDisagreement_s,
              {"rank " + std::to_string(culprit) + " called " + theirs, ours, "in the same order"});
  EXPECT_GE(occurrences(misbehaving.words(), "lockstep: rank "), 1) << misbehaving.words();
  misbehaving.expect_nothing_left();
}

TEST_F(Hosts, RanksThatDisagree) {
  const std::string usual = "all_reduce(float32[100], sum, 'gradients') #2";
  expect_disagreement("operation", 7, usual, "barrier #2");
  expect_disagreement("dtype", 6, usual, "all_reduce(int32[100], sum, 'gradients') #2");
  expect_disagreement("count", 0, usual, "all_reduce(float32[101], sum, 'gradients') #2");
  expect_disagreement("root", 5, "broadcast(float32[100], root 0) #2", "broadcast(float32[100], root 1) #2");
  expect_disagreement("order", 3, "all_reduce(float32[100], sum, 'a') #2", "all_reduce(float32[100], sum, 'b') #2");
  expect_disagreement("lanes", 4, usual, "all_reduce(float32[1048576], sum, 'gradients') #2");
  expect_disagreement("large", 2, "all_reduce(float32[1048576], sum) #2", "all_reduce(float32[1048577], sum) #2");
}

TEST_F(Hosts, RankThatEndsEarly) {
  Misbehaving misbehaving(everywhere("leave", 5));
  expect_told(misbehaving, kDisagreement_s,
              {"rank 5 has ended, but rank ", "waits for it in all_reduce(float32[100], sum, 'gradients') #2"});
  misbehaving.expect_nothing_left();
}

TEST_F(Hosts, RankThatThrows) {
  Misbehaving misbehaving(everywhere("throw", 5));
  expect_told(misbehaving, kDisagreement_s, {"lockstep: rank 5: shard 7 is torn"});
  EXPECT_EQ(occurrences(misbehaving.words(), "lockstep: "), 1) << misbehaving.words();
  EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
}

/// mpirun ends everyone as soon as it sees a rank gone, unless told not to. Then it is our own
/// watch that ends them; mpirun itself may stay, as if they were to be started again.
void expect_death(int victim) {
  SCOPED_TRACE(victim);
  Misbehaving misbehaving(
      mpirun({"--enable-recovery", "--map-by", "ppr:2:node", "-n", std::to_string(kRanks)}, "loop", 0));
  ASSERT_TRUE(misbehaving.loops(kRanks)) << misbehaving.words();
  misbehaving.deed();
  misbehaving.signal(victim, SIGKILL);
  const double seconds = misbehaving.until_ranks_end(2 * kDeath_s);
  std::cout << "    ranks ended " << seconds << " s after the deed\n";
  EXPECT_GE(seconds, 0) << "ranks run on: " << misbehaving.words();
  EXPECT_LT(seconds, kDeath_s);
  // Not by all: MPI may end a rank that it sees cut off before that rank can say it.
  EXPECT_TRUE(misbehaving.run().waits_for("released: ", 1, 5)) << misbehaving.words();
  const std::string words = misbehaving.words(), rank = std::to_string(victim);
  EXPECT_TRUE(has(words, "lockstep: rank " + rank + " (process ") || has(words, "held by rank " + rank + ", broke"))
      << words;
  EXPECT_FALSE(has(words, "process rank " + rank + " with PID")) << "mpirun ended them: " << words;
}

TEST_F(Hosts, LeaderThatIsKilled) { expect_death(4); }
TEST_F(Hosts, FirstLeaderThatIsKilled) { expect_death(0); }
TEST_F(Hosts, FollowerThatIsKilled) { expect_death(5); }

/// What ranks say while `deed` takes host ls3 away. mpirun, which loses a daemon then, may drop
/// their output and not end: so they say it into a file, and only ranks must end.
void expect_lost_host(const std::string& deed, const std::string& how) {
  const std::string words = std::string(std::getenv("LOCKSTEP_HOSTS_DIR")) + "/words";
  std::filesystem::remove(words);
  Misbehaving misbehaving({LOCKSTEP_HOSTS, "mpirun", "--bind-to", "none", "--map-by", "ppr:2:node", "-n",
                           std::to_string(kRanks), "sh", "-c", "exec " LOCKSTEP_MISBEHAVE " loop 2>> " + words});
  ASSERT_TRUE(misbehaving.loops(kRanks)) << misbehaving.words();
  misbehaving.deed();
  hosts(deed);
  const double seconds = misbehaving.until_ranks_end(2 * kDeath_s);
  std::cout << "    ranks ended " << seconds << " s after the deed\n";
  EXPECT_GE(seconds, 0);
  EXPECT_LT(seconds, kDeath_s);
  std::ifstream file(words);
  const std::string said(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(has(said, "lockstep: host ls3 (ranks 4, 5) " + how)) << said;
}

TEST_F(Hosts, HostThatLosesItsPower) {
  expect_lost_host("poweroff ls3", "");
  hosts("poweron ls3");
}

TEST_F(Hosts, HostThatIsCutOff) {
  expect_lost_host("link ls3 down", "has not answered for ");
  hosts("link ls3 up");
}

TEST_F(Hosts, RankThatIsStopped) {
  for (const int victim : {4, 7}) {  // a leader and a follower
    SCOPED_TRACE(victim);
    Misbehaving misbehaving(everywhere("loop", 0, kTimeout_s));
    ASSERT_TRUE(misbehaving.loops(kRanks)) << misbehaving.words();
    misbehaving.deed();
    misbehaving.signal(victim, SIGSTOP);
    expect_told(misbehaving, kTimeout_s + kGrace_s + kDisagreement_s,
                {" has waited 4.", "rank " + std::to_string(victim) + " "});
    EXPECT_TRUE(has(misbehaving.words(), "stopped for ") || has(misbehaving.words(), "silent for "))
        << misbehaving.words();
    EXPECT_TRUE(has(misbehaving.words(), "in span '")) << misbehaving.words();
    misbehaving.expect_nothing_left();
  }
}

/// `culprit` is the only rank of its host. Whoever says it first knows who is missing.
void expect_stuck(const std::string& placement, int ranks, int culprit) {
  SCOPED_TRACE(placement);
  Misbehaving misbehaving(mpirun({"--map-by", placement, "-n", std::to_string(ranks)}, "stuck", culprit, kTimeout_s));
  expect_told(misbehaving, kTimeout_s + kGrace_s + kDisagreement_s,
              {" has waited 4.", "all_reduce(float32[100], sum, 'gradients') #2: rank " + std::to_string(culprit) +
                                     " on another host is missing, in span 'load batch' for "});
  misbehaving.expect_nothing_left();
}

TEST_F(Hosts, RankThatIsStuckAndAloneOnItsHost) {
  expect_stuck("ppr:1:node", 4, 2);
  expect_stuck("ppr:2:node", 7, 6);
}

TEST_F(Hosts, RanksOfDifferentVersions) {
  const std::string other = fmt::format("LD_LIBRARY_PATH={}", LOCKSTEP_OTHER_VERSION);
  Misbehaving misbehaving({LOCKSTEP_HOSTS, "mpirun", "--bind-to", "none", "--map-by", "ppr:1:node", "-n", "2",
                           LOCKSTEP_MISBEHAVE, "loop", ":", "-n", "1", "env", other, LOCKSTEP_MISBEHAVE, "loop"});
  EXPECT_EQ(misbehaving.expect_nothing_left(), 2) << misbehaving.words();
  EXPECT_GE(occurrences(misbehaving.words(), "but rank 2 is 9.9.9; install one version on all hosts"), 1)
      << misbehaving.words();
}

}  // namespace
}  // namespace lockstep::test
