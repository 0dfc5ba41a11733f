// Failures of processes on one host, under `lockstep launch`: every rank ends in time,
// the cause is said once, the exit code is that of the cause, nothing is left.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "misbehaving.h"

namespace lockstep::test {
namespace {

constexpr int kRanks = 3;
// What the launcher promises, see "How soon" in docs/launch.md.
constexpr double kDisagreement_s = 2;
constexpr double kDeath_s = 1;
constexpr double kTimeout_s = 2;
// Ranks that cannot hear of the end are ended after 3 s.
constexpr double kGrace_s = 3;

std::vector<std::string> launch(const std::string& mode, int culprit = kRanks - 1) {
  return {LOCKSTEP_PROGRAM,
          "launch",
          "-n",
          std::to_string(kRanks),
          "--timeout",
          std::to_string(kTimeout_s),
          "--",
          LOCKSTEP_MISBEHAVE,
          mode,
          std::to_string(culprit)};
}

/// The launcher's own line.
void expect_said_once(const Misbehaving& misbehaving, const std::string& cause) {
  EXPECT_EQ(occurrences("\n" + misbehaving.words(), "\nlockstep: rank"), 1) << misbehaving.words();
  EXPECT_EQ(occurrences("\n" + misbehaving.words(), "\nlockstep: " + cause), 1) << cause << " in\n"
                                                                                << misbehaving.words();
}

void expect_disagreement(const std::string& mode, const std::string& ours, const std::string& theirs) {
  Misbehaving misbehaving(launch(mode));
  const std::string culprit = "rank 2 called " + theirs;
  expect_told(misbehaving, kDisagreement_s,
              {culprit, ours, "all ranks must call the same collectives in the same order"});
  EXPECT_EQ(occurrences("\n" + misbehaving.words(), "\nlockstep: rank"), 1) << misbehaving.words();
  // Whoever did not find out itself was told.
  EXPECT_EQ(occurrences(misbehaving.words(), "released: rank"), kRanks) << misbehaving.words();
  EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
}

TEST(Processes, ThatDisagree) {
  const std::string usual = "all_reduce(float32[100], sum, 'gradients') #2";
  expect_disagreement("operation", usual, "barrier #2");
  expect_disagreement("dtype", usual, "all_reduce(int32[100], sum, 'gradients') #2");
  expect_disagreement("count", usual, "all_reduce(float32[101], sum, 'gradients') #2");
  expect_disagreement("reduction", usual, "all_reduce(float32[100], max, 'gradients') #2");
  expect_disagreement("root", "broadcast(float32[100], root 0) #2", "broadcast(float32[100], root 1) #2");
  expect_disagreement("name", usual, "all_reduce(float32[100], sum, 'weights') #2");
  expect_disagreement("order", "all_reduce(float32[100], sum, 'a') #2", "all_reduce(float32[100], sum, 'b') #2");
  expect_disagreement("lanes", usual, "all_reduce(float32[1048576], sum, 'gradients') #2");
  expect_disagreement("large", "all_reduce(float32[1048576], sum) #2", "all_reduce(float32[1048577], sum) #2");
}

TEST(Processes, OfWhichOneEndsEarly) {
  Misbehaving misbehaving(launch("leave"));
  expect_told(misbehaving, kDisagreement_s,
              {"rank 2 has ended, but rank ", "waits for it in all_reduce(float32[100], sum, 'gradients') #2"});
  EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
}

TEST(Processes, OfWhichOneThrows) {
  constexpr const char kTorch[] =
      "rank 1: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0";
  for (const auto& [mode, cause, code] : {std::tuple{"throw", "rank 1: shard 7 is torn", 1},
                                          {"misuse", "rank 1: no such dataset", 2},
                                          {"foreign", "rank 1: label 11 of 10", 1},
                                          {"number", "rank 1: an exception of the type int", 1},
                                          {"torch", kTorch, 1}}) {
    SCOPED_TRACE(mode);
    Misbehaving misbehaving(launch(mode, 1));
    expect_told(misbehaving, kDisagreement_s, {cause});
    expect_said_once(misbehaving, std::string(cause) + "\n");
    // Behind its first line torch writes where it was thrown and the stack, in a line of its own each.
    EXPECT_FALSE(has(misbehaving.words(), "Exception raised from")) << misbehaving.words();
    EXPECT_FALSE(has("\n" + misbehaving.words(), "\nframe #")) << misbehaving.words();
    EXPECT_EQ(misbehaving.expect_nothing_left(), code);
  }
}

TEST(Processes, OfWhichOneIsKilledInALargeAllReduce) {
  for (int victim = 0; victim < kRanks; ++victim) {
    Misbehaving misbehaving(launch("loop"));
    ASSERT_TRUE(misbehaving.loops(kRanks)) << misbehaving.words();
    misbehaving.deed();
    misbehaving.signal(victim, SIGKILL);
    const std::string cause = "rank " + std::to_string(victim) + " (process ";
    expect_told(misbehaving, kDeath_s, {cause, "was killed by signal 9 (Killed) in span "});
    expect_said_once(misbehaving, cause);
    EXPECT_EQ(misbehaving.expect_nothing_left(), 128 + SIGKILL);
  }
}

TEST(Processes, OfWhichOneIsStoppedInALargeAllReduce) {
  Misbehaving misbehaving(launch("loop"));
  ASSERT_TRUE(misbehaving.loops(kRanks)) << misbehaving.words();
  misbehaving.deed();
  misbehaving.signal(1, SIGSTOP);
  expect_told(misbehaving, kTimeout_s + kGrace_s + kDisagreement_s,
              {" has waited 2.", "rank 1 (process ", ", stopped for ", "in span '"});
  EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
}

TEST(Processes, OfWhichOneIsStoppedOrStuckInUserCode) {
  for (const char* mode : {"stopped", "stuck"}) {
    Misbehaving misbehaving(launch(mode, 0));
    expect_told(misbehaving, kTimeout_s + kGrace_s + kDisagreement_s,
                {" has waited 2.", "all_reduce(float32[100], sum, 'gradients') #2: rank 0 (process ", "is missing, ",
                 "in span 'load batch' for "});
    EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
  }
}

// No collective waits for it any more.
TEST(Processes, OfWhichOneIsStoppedAfterItsLastCollective) {
  Misbehaving misbehaving(launch("stopped_late", 0));
  expect_told(misbehaving, kTimeout_s + kGrace_s + kDisagreement_s,
              {"lockstep: rank 0 (process ", "has not ended, stopped for ", "in span 'tidy up'"});
  EXPECT_EQ(misbehaving.expect_nothing_left(), 1);
}

TEST(Processes, OfWhichOneTakesItsTimeToEnd) {
  Background run(launch("slow_end", 0));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(occurrences(run.errors(), "lockstep: warning: rank 0 (process "), 1) << run.errors();
  EXPECT_TRUE(has(run.errors(), "has not ended, in span 'tidy up' for ")) << run.errors();
}

TEST(Processes, OfWhichOneEndsBeforeItsLastWordsAreRead) {
  // Of four ranks, so that the group's memory is large enough to be given back.
  Background run({LOCKSTEP_PROGRAM, "launch", "-n", "4", "--", LOCKSTEP_MISBEHAVE, "early_end"});
  EXPECT_EQ(run.wait(), 0) << run.errors();
}

TEST(Processes, OfWhichTheOutputIsLost) {
  Background run({"sh", "-c", fmt::format("{} launch -n 2 -- echo result > /dev/full", LOCKSTEP_PROGRAM)});
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(has(run.errors(), "lockstep: standard output was lost: No space left on device")) << run.errors();
}

TEST(Processes, OfAnotherVersionThanTheLauncher) {
  Misbehaving misbehaving(launch("other_version"));
  EXPECT_EQ(misbehaving.expect_nothing_left(), 2);
  EXPECT_EQ(occurrences(misbehaving.words(), "but it was launched by 9.9.9; install one version everywhere\n"), 1)
      << misbehaving.words();
}

// The plug-in lies beside the library: a copy elsewhere is a Lockstep without MPI.
TEST(Processes, WithoutMpi) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("failure_without_mpi_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path library = LOCKSTEP_LIBRARY;
  std::filesystem::copy_file(library, folder / std::filesystem::path(LOCKSTEP_SONAME));
  {
    Background run({"env", "LD_LIBRARY_PATH=" + folder.string(), "LOCKSTEP_BACKEND=hier", LOCKSTEP_MISBEHAVE, "loop"});
    EXPECT_EQ(run.wait(), 2);
    EXPECT_TRUE(has(run.errors(), "lockstep: Lockstep was built without MPI") && has(run.errors(), "install an MPI") &&
                has(run.errors(), "'lockstep launch'"))
        << run.errors();
    const std::string errors = run.errors();
    EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::test
