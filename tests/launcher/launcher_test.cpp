// The real `lockstep launch`, with tests/launcher/probe.cpp as its ranks. Deadlines
// have slack for a slow machine; the launcher's own are in launched_run.cpp.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/comm/mpirun.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/text.h"

namespace lockstep::test {
namespace {

// A rank that knows of an abort ends at once; one that does not is ended after 3 s.
constexpr double kReleased_s = 2.5;

std::vector<std::string> launch(std::vector<std::string> options, const std::string& mode) {
  options.insert(options.begin(), {LOCKSTEP_PROGRAM, "launch"});
  options.insert(options.end(), {"--", LOCKSTEP_PROBE, mode});
  return options;
}

/// One line, as an error of the command line should be.
void expect_refused(const std::vector<std::string>& command, const std::vector<std::string>& parts) {
  Background run(command);
  EXPECT_EQ(run.wait(), 2);
  const std::string errors = run.errors();
  for (const auto& part : parts) EXPECT_TRUE(has(errors, part)) << part << " in " << errors;
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 1) << errors;
  EXPECT_EQ(run.output(), "");
  EXPECT_TRUE(run.all_gone(2));
}

// ---- what ranks find -------------------------------------------------------------------------

TEST(Launch, GivesRanksTheirEnvironment) {
  unsetenv("OMP_NUM_THREADS");
  unsetenv("MKL_NUM_THREADS");
  Background run(launch({"-n", "2", "--timeout", "7", "--threads", "3", "--bind", "none"}, "environment"));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  for (const std::string rank : {"0", "1"}) {
    EXPECT_TRUE(has(run.output(), "environment LOCKSTEP_RANK=" + rank + " LOCKSTEP_SIZE=2 LOCKSTEP_LOCAL_RANK=" + rank +
                                      " LOCKSTEP_LOCAL_SIZE=2 LOCKSTEP_TIMEOUT=7 LOCKSTEP_RESTART=0 OMP_NUM_THREADS=3 "
                                      "MKL_NUM_THREADS=3 cpus=" +
                                      std::to_string(usable_cpus().size()) + " leads=true segment=true"))
        << run.output();
  }
}

TEST(Launch, RespectsThreadsOfTheUser) {
  setenv("OMP_NUM_THREADS", "5", 1);
  unsetenv("MKL_NUM_THREADS");
  Background run(launch({"-n", "1"}, "environment"));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), "OMP_NUM_THREADS=5 MKL_NUM_THREADS=" + std::to_string(fair_threads(1))))
      << run.output();
  unsetenv("OMP_NUM_THREADS");
}

TEST(Launch, BindsRanksToTheirCores) {
  const auto cores = usable_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  Background run(launch({"-n", std::to_string(cores.size()), "--bind", "core"}, "environment"));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), " cpus=" + std::to_string(cores[0].cpus.size()) + " ")) << run.output();
}

TEST(Launch, WarnsOfMoreRanksThanCpus) {
  const auto ranks = std::to_string(usable_cpus().size() + 1);
  Background run(launch({"-n", ranks}, "requeue"));
  EXPECT_EQ(run.wait(), 75);
  EXPECT_TRUE(has(run.errors(), ranks + " ranks share " + std::to_string(usable_cpus().size()) + " usable CPU"))
      << run.errors();
}

TEST(Launch, GivesStandardInputToRankZero) {
  const std::string path = testing::TempDir() + "launcher_test_input_" + std::to_string(getpid());
  std::ofstream(path) << "typed\n";
  Background run(launch({"-n", "2"}, "input"), path);
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), "rank 0 read 'typed'") && has(run.output(), "rank 1 read ''")) << run.output();
  std::filesystem::remove(path);
}

TEST(Launch, RunsWithClosedStandardStreams) {
  for (const std::string closed : {"<&-", ">&-", "<&- >&- 2>&-"}) {
    SCOPED_TRACE(closed);
    const auto with_closed = [&](const std::string& mode) {
      std::vector<std::string> command = {"sh", "-c", "exec \"$@\" " + closed, "sh"};
      for (const auto& word : launch({"-n", "2"}, mode)) command.push_back(word);
      return command;
    };
    Background failing(with_closed("throws"));
    EXPECT_EQ(failing.wait(), 1) << failing.errors();
    EXPECT_EQ(has(failing.errors(), "lockstep: rank 1: shard 7 is torn\n"), !has(closed, "2>&-")) << failing.errors();
    EXPECT_EQ(has(failing.output(), "released: shard 7 is torn\n"), !has(" " + closed, " >&-")) << failing.output();
    EXPECT_TRUE(failing.all_gone(2));
    Background reading(with_closed("input"));
    EXPECT_EQ(reading.wait(), 0) << reading.errors();
    EXPECT_EQ(has(reading.output(), "rank 0 read ''"), !has(" " + closed, " >&-")) << reading.output();
  }
}

// ---- output ----------------------------------------------------------------------------------

TEST(Launch, ForwardsWholeLines) {
  Background run(launch({"-n", "3"}, "lines"));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  std::size_t whole = 0;
  for (const auto& line : split(run.output(), '\n')) {
    if (line.size() == 400 && line.find_first_not_of(line[0]) == std::string::npos) ++whole;
  }
  // Less those that a last line without an end runs into.
  EXPECT_GE(whole, 900U - 2U);
  for (const char* last : {"last of 0", "last of 1", "last of 2"}) EXPECT_TRUE(has(run.output(), last));
}

TEST(Launch, PutsTheRankInFrontOfLines) {
  Background run(launch({"-n", "3", "--prefix"}, "lines"));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  const auto lines = split(run.output(), '\n');
  ASSERT_EQ(lines.size(), 3 * 301 + 1U);
  EXPECT_EQ(lines.back(), "");
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const std::string rank = lines[i].substr(0, 4);
    ASSERT_TRUE(rank == "[0] " || rank == "[1] " || rank == "[2] ") << lines[i];
    const std::string whole(400, static_cast<char>('a' + rank[1] - '0'));
    EXPECT_TRUE(lines[i].substr(4) == whole || lines[i].substr(4) == std::string("last of ") + rank[1]) << lines[i];
  }
}

TEST(Launch, KeepsStreamsApart) {
  Background run(launch({"-n", "1"}, "streams"));
  ASSERT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "to stdout\n");
  EXPECT_EQ(run.errors(), "to stderr\n");
}

TEST(Launch, ForwardsLinesOfAnyLength) {
  Background run(launch({"-n", "1", "--prefix"}, "long_line"));
  ASSERT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "[0] " + std::string(3 << 20, 'x') + "\n");
}

/// A pipe that nobody reads until asked to. The launcher shares its writing end with us.
class UnreadPipe {
 public:
  UnreadPipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    reading_ = FileDescriptor(ends[0]);
    writing_ = FileDescriptor(ends[1]);
    fcntl(reading_.get(), F_SETFL, O_NONBLOCK);
  }
  int writing_end() const noexcept { return writing_.get(); }
  bool fills_up(double timeout_s = 30) const {
    pollfd state{writing_.get(), POLLOUT, 0};
    for (double waited_s = 0; waited_s < timeout_s; waited_s += 0.05) {
      if (poll(&state, 1, 0) == 0) return true;
      usleep(50'000);
    }
    return false;
  }
  bool blocks() const { return (fcntl(writing_.get(), F_GETFL) & O_NONBLOCK) == 0; }
  /// All there is, until every writer has gone.
  std::string read_all() {
    writing_.reset();
    std::string text;
    std::vector<char> chunk(65536);
    for (pollfd state{reading_.get(), POLLIN, 0}; poll(&state, 1, 30'000) > 0;) {
      const auto got = read(reading_.get(), chunk.data(), chunk.size());
      if (got <= 0) break;
      text.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  FileDescriptor reading_;
  FileDescriptor writing_;
};

TEST(Launch, ObeysSignalsWhileNobodyReadsItsOutput) {
  for (const int signal : {SIGINT, SIGTERM}) {
    UnreadPipe pipe;
    Background run(launch({"-n", "2"}, "flood"), "/dev/null", pipe.writing_end());
    ASSERT_TRUE(pipe.fills_up());
    run.signal(signal);
    EXPECT_EQ(run.wait(kReleased_s + 2), 128 + signal) << run.errors();
    EXPECT_TRUE(run.all_gone(2));
  }
}

TEST(Launch, EndsRanksInTimeWhileNobodyReadsItsOutputAndLosesNoneOfIt) {
  UnreadPipe pipe;
  Background run(launch({"-n", "3"}, "flood_and_fail"), "/dev/null", pipe.writing_end());
  ASSERT_TRUE(pipe.fills_up());
  EXPECT_TRUE(pipe.blocks()) << "changed for all who share it";
  // Launcher and guardian: the ranks are ended after 3 s.
  for (int i = 0; i < 100 && run.processes().size() != 2; ++i) usleep(100'000);
  EXPECT_EQ(run.processes().size(), 2U);
  EXPECT_TRUE(has(run.errors(), "ended with exit code 3")) << run.errors();
  const std::string output = pipe.read_all();
  EXPECT_EQ(run.wait(), 3);
  // The launcher keeps some, and so do the pipes of two ranks: much, but not without bound.
  EXPECT_GT(output.size(), 256U << 10);
  EXPECT_LT(output.size(), 2U << 20);
  for (const auto& line : split(output.substr(0, output.rfind('\n')), '\n')) EXPECT_EQ(line, std::string(100, 'x'));
}

TEST(Launch, WaitsForASlowReaderOfARunThatIsOver) {
  UnreadPipe pipe;
  Background run(launch({"-n", "3", "--prefix"}, "lines"), "/dev/null", pipe.writing_end());
  ASSERT_TRUE(pipe.fills_up());
  EXPECT_EQ(run.wait(2), -1);
  const std::string output = pipe.read_all();
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 3 * 301);
}

// ---- wrong use -------------------------------------------------------------------------------

TEST(Launch, RefusesWrongUseInOneLine) {
  const std::string program = LOCKSTEP_PROGRAM;
  expect_refused({program, "launch", "-n", "2", "--", "no-such-program"},
                 {"lockstep: cannot run 'no-such-program': No such file or directory"});
  expect_refused(launch({"-n", "0"}, "environment"), {"-n 0", "expected 1 or more"});
  expect_refused(launch({"-n", "-3"}, "environment"), {"-n -3"});
  expect_refused(launch({"-n", "1025"}, "environment"), {"-n 1025", "between 1 and 1024"});
  expect_refused(launch({"-n", "many"}, "environment"), {"many", "see 'lockstep launch --help'"});
  expect_refused(launch({"-n", "2", "--bnd", "core"}, "environment"), {"--bnd", "did you mean '--bind'?"});
  expect_refused(launch({"-n", "2", "--bind", "cor"}, "environment"), {"did you mean 'core'?"});
  expect_refused(launch({}, "environment"), {"-n N"});
  expect_refused({program, "launch", "-n", "2"}, {"no program to launch"});
  expect_refused({program, "launch", "-n", "2", "--"}, {"no program to launch"});
  expect_refused(launch({"-n", "1", "--timeout", "-1"}, "environment"), {"--timeout"});
  expect_refused(launch({"--hosts", "a:4,:2"}, "environment"), {"--hosts", "':2'"});
  expect_refused(launch({"--hosts", "a:0"}, "environment"), {"host a"});
  expect_refused(launch({"--hosts", "a:1025"}, "environment"), {"host a", "1024"});
  expect_refused(launch({"--hosts", "a:1000,b:1,a:1000"}, "environment"), {"2000 ranks on host a", "1024"});
  for (const char* threads : {"0", "-1"}) {
    expect_refused(launch({"-n", "1", "--threads", threads}, "environment"),
                   {std::string("--threads ") + threads, "expected 1 or more"});
  }
  const auto crowd = std::to_string(usable_cores().size() + 1);
  expect_refused(launch({"-n", crowd, "--bind", "core"}, "environment"), {crowd + " ranks", "--bind none"});
  expect_refused({program, "lanch"}, {"unknown command 'lanch'", "did you mean 'launch'?"});
}

TEST(Launch, NamesThePackageWhereMpirunIsMissing) {
  setenv("LOCKSTEP_MPIRUN", "/no/such/mpirun", 1);
  expect_refused(launch({"--hosts", "a:4"}, "environment"), {"/no/such/mpirun", "apt install openmpi-bin"});
  unsetenv("LOCKSTEP_MPIRUN");
}

// The limit is one of shared memory, which a host's ranks have in common.
TEST(Launch, TakesMoreRanksOnSeveralHostsThanOneCanHave) {
  setenv("LOCKSTEP_MPIRUN", "echo", 1);
  Background run(launch({"-n", "2000", "--hosts", "a:1000,b:1000"}, "environment"));
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), "--host a:1000,b:1000 -n 2000 ")) << run.output();
  unsetenv("LOCKSTEP_MPIRUN");
}

TEST(Mpirun, IsCalledWithTheHostsAndTheEnvironment) {
  comm::LaunchOptions options;
  options.hosts = "a:4,b";
  options.bind = "numa";
  options.prefix = true;
  options.command = {"program", "-x"};
  options.starter = {"starter"};
  const auto command = join(comm::mpirun_command(options, {"LOCKSTEP_TIMEOUT"}), " ");
  EXPECT_TRUE(command.starts_with("mpirun --host a:4,b:1 -n 5 --map-by slot --bind-to numa")) << command;
  EXPECT_TRUE(command.ends_with("--tag-output -x LOCKSTEP_TIMEOUT starter program -x")) << command;
  options.ranks = 6;
  EXPECT_THROW(comm::mpirun_command(options, {}), Error);
  options = {};
  options.hosts = "a:4";
  options.grace_s = 60;
  EXPECT_THROW(comm::mpirun_command(options, {}), Error);
}

const std::string kShowRank =
    "echo rank=$LOCKSTEP_RANK/$LOCKSTEP_SIZE local=$LOCKSTEP_LOCAL_RANK/$LOCKSTEP_LOCAL_SIZE "
    "restart=$LOCKSTEP_RESTART segment=${LOCKSTEP_SEGMENT-none}";

std::vector<std::string> started_by_mpirun(const std::vector<std::string>& program) {
  std::vector<std::string> command = {"env",
                                      "OMPI_COMM_WORLD_RANK=5",
                                      "OMPI_COMM_WORLD_SIZE=8",
                                      "OMPI_COMM_WORLD_LOCAL_RANK=0",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                                      LOCKSTEP_PROGRAM,
                                      "launched-by-mpirun",
                                      "--"};
  command.insert(command.end(), program.begin(), program.end());
  return command;
}

TEST(Mpirun, StartsProgramsThatKnowTheirRank) {
  Background run(started_by_mpirun({"sh", "-c", kShowRank + "; exit 7"}));
  EXPECT_EQ(run.wait(), 7) << run.errors();
  EXPECT_EQ(run.output(), "rank=5/8 local=0/4 restart=0 segment=none\n");
  Background killed(started_by_mpirun({"sh", "-c", "kill -9 $$"}));
  EXPECT_EQ(killed.wait(), 128 + SIGKILL) << killed.errors();
  expect_refused(started_by_mpirun({"no-such-program"}), {"cannot run 'no-such-program': No such file or directory"});
  expect_refused({LOCKSTEP_PROGRAM, "launched-by-mpirun", "--", "true"}, {"OMPI_COMM_WORLD_RANK is not set"});
}

// The launcher of hosts may be a rank itself.
TEST(Mpirun, GetsNothingOfTheRankThatCallsIt) {
  const std::string path = testing::TempDir() + "launcher_test_mpirun_" + std::to_string(getpid());
  std::ofstream(path) << "#!/bin/sh\necho \"$@\"; env\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  setenv("LOCKSTEP_MPIRUN", path.c_str(), 1);
  Background run({LOCKSTEP_PROGRAM, "launch", "-n", "1", "--timeout", "9", "--", LOCKSTEP_PROGRAM, "launch", "--hosts",
                  "a:1", "--", "true"});
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(has(run.output(), "-x LOCKSTEP_TIMEOUT ") && has(run.output(), "\nLOCKSTEP_TIMEOUT=9\n")) << run.output();
  for (const char* name : {"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "RESTART", "SEGMENT"}) {
    EXPECT_FALSE(has(run.output(), std::string(" LOCKSTEP_") + name + " ")) << run.output();
    EXPECT_FALSE(has(run.output(), std::string("\nLOCKSTEP_") + name + "=")) << run.output();
  }
  unsetenv("LOCKSTEP_MPIRUN");
  std::filesystem::remove(path);
}

std::vector<std::string> on_two_hosts(const std::vector<std::string>& command) {
  const std::string folder = LOCKSTEP_HOSTS_FOLDER;
  std::vector<std::string> result = {folder + "/with_hosts.sh", "-n", "2", "--", folder + "/launch_on_hosts.sh"};
  result.insert(result.end(), command.begin(), command.end());
  return result;
}

TEST(LaunchOnHosts, GivesRanksTheirEnvironmentAndTheirCode) {
  if (std::system("command -v mpirun >/dev/null") != 0) GTEST_SKIP() << "needs Open MPI";
  Background run(on_two_hosts({LOCKSTEP_PROGRAM, "launch", "--hosts", "ls1:2,ls2:1", "--", "sh", "-c",
                               "echo $(hostname) $(" + kShowRank + ")"}));
  const int code = run.wait(40);
  if (code == 77) GTEST_SKIP() << run.errors();
  EXPECT_EQ(code, 0) << run.errors();
  for (const char* line :
       {"ls1 rank=0/3 local=0/2 restart=0 segment=none\n", "ls1 rank=1/3 local=1/2 restart=0 segment=none\n",
        "ls2 rank=2/3 local=0/1 restart=0 segment=none\n"}) {
    EXPECT_TRUE(has(run.output(), line)) << line << "in " << run.output();
  }
  Background failing(on_two_hosts(
      {LOCKSTEP_PROGRAM, "launch", "--hosts", "ls1:1,ls2:1", "--", "sh", "-c", "exit $((LOCKSTEP_RANK * 7))"}));
  EXPECT_EQ(failing.wait(40), 7) << failing.errors();
}

// ---- ranks that fail -------------------------------------------------------------------------

TEST(Launch, PassesTheFirstCodeOnAndTheLastWordsBeforeIt) {
  Background run(launch({"-n", "2"}, "exit_with_3"));
  EXPECT_EQ(run.wait(), 3);
  const auto words = run.errors().find("last words\n");
  const auto cause = run.errors().find("lockstep: rank 1 (process ");
  ASSERT_NE(words, std::string::npos) << run.errors();
  ASSERT_NE(cause, std::string::npos) << run.errors();
  EXPECT_LT(words, cause);
  EXPECT_TRUE(has(run.errors(), "ended with exit code 3"));
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Launch, ReleasesTheOthersWhenARankIsKilled) {
  Background run(launch({"-n", "3"}, "killed"));
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_TRUE(has(run.errors(), "lockstep: rank 2 (process ")) << run.errors();
  EXPECT_TRUE(has(run.errors(), "was killed by signal 9 (Killed) in span 'the deed'")) << run.errors();
  // They say so themselves: nobody had to end them.
  EXPECT_TRUE(run.waits_for("released: rank 2 (process ", 2, 0)) << run.output();
}

TEST(Launch, ReleasesTheOthersSoon) {
  Background run(launch({"-n", "2"}, "sleep"));
  ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
  run.signal(SIGUSR1);  // to every rank: without a handler it kills
  EXPECT_EQ(run.wait(kReleased_s), 128 + SIGUSR1);
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Launch, SaysTheFirstExceptionFirst) {
  Background run(launch({"-n", "3"}, "throws"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(run.errors().starts_with("lockstep: rank 2: shard 7 is torn\n") ||
              has(run.errors(), "\nlockstep: rank 2: shard 7 is torn\n"))
      << run.errors();
  EXPECT_TRUE(run.waits_for("released: shard 7 is torn", 2, 0)) << run.output();
  EXPECT_EQ(run.errors().find("shard 7"), run.errors().rfind("shard 7")) << "said twice: " << run.errors();
}

TEST(Launch, PassesWrongUseOn) {
  Background run(launch({"-n", "2", "--restarts", "3"}, "misused"));
  EXPECT_EQ(run.wait(), 2);
  EXPECT_TRUE(has(run.errors(), "lockstep: rank 1: no such dataset")) << run.errors();
  EXPECT_FALSE(has(run.errors(), "again")) << run.errors();
}

TEST(Launch, NamesARankThatEndedTooSoon) {
  Background run(launch({"-n", "2"}, "returns"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(has(run.errors(), "rank 1 has ended, but rank 0 waits for it in all_reduce")) << run.errors();
}

TEST(Launch, NamesAStoppedRankAndItsSpan) {
  Background run(launch({"-n", "2", "--timeout", "2"}, "stopped"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(has(run.errors(), "rank 0 has waited 2.") && has(run.errors(), "rank 1 (process ") &&
              has(run.errors(), "in span 'the deed'"))
      << run.errors();
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Launch, NamesARankInAnEndlessLoopAndItsSpan) {
  Background run(launch({"-n", "2", "--timeout", "2"}, "endless"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(has(run.errors(), "rank 1 (process ") && has(run.errors(), "in span 'the deed'")) << run.errors();
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Launch, StartsAFailedRunAgain) {
  Background run(launch({"-n", "1", "--restarts", "5"}, "fail_twice"));
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(run.output(), "attempt 0\nattempt 1\nattempt 2\n");
  EXPECT_TRUE(has(run.errors(), "starting the run again (1 of 5)")) << run.errors();
  EXPECT_TRUE(has(run.errors(), "starting the run again (2 of 5)")) << run.errors();
}

TEST(Launch, GivesUpAfterTheRestarts) {
  Background run(launch({"-n", "1", "--restarts", "1"}, "fail_twice"));
  EXPECT_EQ(run.wait(), 1);
  EXPECT_EQ(run.output(), "attempt 0\nattempt 1\n");
}

// ---- signals ---------------------------------------------------------------------------------

TEST(Launch, ForwardsSignalsToEveryRank) {
  Background run(launch({"-n", "2"}, "catch"));
  ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
  run.signal(SIGUSR1);
  EXPECT_TRUE(run.waits_for("got " + std::to_string(SIGUSR1) + "\n", 2));
  run.signal(SIGTERM);
  EXPECT_TRUE(run.waits_for("got " + std::to_string(SIGTERM) + "\n", 2));
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.errors(), "");
}

TEST(Launch, EndsOnSignalsOfTheUserWithoutARestart) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Background run(launch({"-n", "2", "--restarts", "3"}, "sleep"));
    ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
    run.signal(signal);
    EXPECT_EQ(run.wait(kReleased_s), 128 + signal);
    EXPECT_TRUE(has(run.errors(), "lockstep: ended by signal " + std::to_string(signal))) << run.errors();
    EXPECT_FALSE(has(run.errors(), "again")) << run.errors();
    EXPECT_TRUE(run.all_gone(2));
  }
}

TEST(Launch, KillsOnTheSecondInterrupt) {
  Background run(launch({"-n", "2"}, "ignore"));
  ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(0.5), -1);
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(kReleased_s), 128 + SIGINT);
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Launch, LetsRanksHaveTheirGrace) {
  using Clock = std::chrono::steady_clock;
  Background run(launch({"-n", "2", "--grace", "2.5"}, "ignore"));
  ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
  const auto begin = Clock::now();
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(2), -1);
  EXPECT_EQ(run.wait(kReleased_s), 128 + SIGTERM) << run.errors();
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(2500));
  EXPECT_TRUE(run.all_gone(2));

  Background hasty(launch({"-n", "2", "--grace", "0"}, "ignore"));
  ASSERT_TRUE(hasty.waits_for("ready", 2)) << hasty.errors();
  hasty.signal(SIGTERM);
  EXPECT_EQ(hasty.wait(2), 128 + SIGTERM) << hasty.errors();

  for (const char* grace : {"-1", "nan", "1e9"}) {
    Background wrong(launch({"-n", "2", std::string("--grace=") + grace}, "sleep"));
    EXPECT_EQ(wrong.wait(), 2) << grace;
    EXPECT_TRUE(has(wrong.errors(), "expected 0 to 86400 seconds")) << wrong.errors();
  }
}

// ---- nothing is left -------------------------------------------------------------------------

TEST(Launch, LeavesNoProcessWhenItIsKilled) {
  Background run(launch({"-n", "2"}, "sleep"));
  ASSERT_TRUE(run.waits_for("ready", 2)) << run.errors();
  EXPECT_EQ(run.processes().size(), 1 + 1 + 2 * 2U);  // launcher, guardian, ranks with a child each
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_TRUE(run.all_gone(2)) << run.processes().size() << " left";
}

TEST(Launch, EndsWhatRanksLeaveBehind) {
  Background run(launch({"-n", "2"}, "leave_child"));
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(run.all_gone(2)) << run.processes().size() << " left";
}

// Three processes a rank, in two other sessions than its own.
TEST(Launch, EndsWhatHasLeftTheSessionOfARank) {
  Background run(launch({"-n", "2"}, "leave_sessions"));
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(run.processes().size(), 0U);  // none survives, so not even for a moment
  EXPECT_TRUE(run.waits_for("apart", 6, 0)) << run.output();
}

TEST(Launch, EndsWhatHasLeftTheSessionOfARankWhenStopped) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    Background run(launch({"-n", "2"}, "sleep_beside_sessions"));
    ASSERT_TRUE(run.waits_for("apart", 6)) << run.errors();
    run.signal(signal);
    EXPECT_EQ(run.wait(), 128 + signal);
    EXPECT_TRUE(run.all_gone(signal == SIGKILL ? 2 : 0)) << run.processes().size() << " left";
  }
}

// A shell may have started something before it became the launcher.
TEST(Launch, LeavesChildrenAloneThatItHadBefore) {
  Background run({"sh", "-c", "(sleep 0.5; sleep 1; echo alive) & exec \"$@\"", "sh", LOCKSTEP_PROGRAM, "launch", "-n",
                  "1", "--", "true"});
  EXPECT_EQ(run.wait(), 0) << run.errors();
  EXPECT_TRUE(run.waits_for("alive", 1, 10));
}

/// Of this user and with our name: other programs of the machine come and go there too.
std::set<std::string> our_files() {
  std::set<std::string> names;
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      struct stat file{};
      const std::string name = entry.path().filename();
      // Folders of other tests, which run at the same time.
      if (!name.starts_with("lockstep") || name.starts_with("lockstep_test_")) continue;
      if (lstat(entry.path().c_str(), &file) != 0) continue;
      if (file.st_uid == geteuid()) names.insert(entry.path());
    }
  }
  return names;
}

TEST(Launch, LeavesNoFile) {
  for (const auto& [mode, code] : {std::pair{"streams", 0}, {"killed", 128 + SIGKILL}}) {
    const auto before = our_files();
    Background run(launch({"-n", "2"}, mode));
    EXPECT_EQ(run.wait(), code);
    for (const auto& name : our_files()) EXPECT_TRUE(before.contains(name)) << name << " left";
  }
}

}  // namespace
}  // namespace lockstep::test
