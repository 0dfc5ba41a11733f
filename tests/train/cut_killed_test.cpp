// A rank of a model that is cut is killed: all end in time with the cause, nothing is left, and the run goes on as if
// nobody had disturbed it.
#include <signal.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/equal.h>

#include "cut_run.h"

namespace lockstep::test {
namespace {

using Clock = std::chrono::steady_clock;
using train::testing::layout_named;

// What the launcher promises, see "How soon" in docs/launch.md, with the end of eight processes on two cores.
constexpr double kDeath_s = 3;

struct Killed {
  std::string layout;
  int rank;
};
void PrintTo(const Killed& killed, std::ostream* out) { *out << killed.layout; }

class CutKilled : public testing::TestWithParam<Killed> {};
// Of each strategy another one: the first rank, which writes what the run leaves, a neighbour, a last stage.
INSTANTIATE_TEST_SUITE_P(Strategies, CutKilled,
                         testing::Values(Killed{"data2", 1}, Killed{"tensor2", 0}, Killed{"pipe2_one_f_one_b", 1},
                                         Killed{"pipe2_gpipe", 0}, Killed{"pipe2_interleaved", 1},
                                         Killed{"pipe2_zero_bubble", 0}, Killed{"zero1_data2", 0},
                                         Killed{"zero2_data2", 1}, Killed{"zero3_data2", 1},
                                         Killed{"zero3_pipe2_data2_tensor2", 5}),
                         [](const auto& test) { return test.param.layout; });

bool waits_for_step(const std::string& checkpoints, std::int64_t step) {
  const auto until = Clock::now() + std::chrono::seconds(60);
  for (; Clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    const auto steps = train::CheckpointFolder(checkpoints).steps();
    if (!steps.empty() && steps.back() >= step) return true;
  }
  return false;
}

TEST_P(CutKilled, GoesOnAsIfNothingHadBeen) {
  const Layout layout = layout_named(GetParam().layout);
  const CutRuns runs("gpt");
  const auto command = [&](const std::string& name) {
    auto settings = layout.settings;
    settings.insert(settings.end(), {"steps=400", "checkpoints.every_steps=10"});
    return runs.command(name, {"-n", std::to_string(layout.ranks)}, settings);
  };
  const auto before = our_files();
  {
    Background run(command("killed"));
    ASSERT_TRUE(waits_for_step(runs.checkpoints("killed"), 20)) << run.errors();
    const pid_t victim = run.rank(GetParam().rank);
    ASSERT_GT(victim, 0) << run.errors();
    kill(victim, SIGKILL);
    const auto deed = Clock::now();
    EXPECT_EQ(run.wait(60), 128 + SIGKILL) << run.errors();
    EXPECT_TRUE(run.all_gone(10));
    const double seconds = std::chrono::duration<double>(Clock::now() - deed).count();
    std::cout << "    all ended " << seconds << " s after the deed\n";
    EXPECT_LT(seconds, kDeath_s);
    const std::string cause = fmt::format("lockstep: rank {} (process {}", GetParam().rank, victim);
    EXPECT_EQ(occurrences(run.errors(), cause), 1) << run.errors();
    EXPECT_TRUE(has(run.errors(), "was killed by signal 9 (Killed)")) << run.errors();
    EXPECT_TRUE(has(run.errors(), "the run has failed; its last checkpoint is of step ")) << run.errors();
    for (const auto& name : our_files()) EXPECT_TRUE(before.contains(name)) << name << " left";
  }
  const auto saved = train::CheckpointFolder(runs.checkpoints("killed")).steps();
  ASSERT_LT(saved.back(), 400) << "it was killed in the middle";

  auto again = command("killed");
  again.emplace_back("--resume");
  const Learned resumed = runs.learn("killed", again);
  const Learned whole = runs.learn("whole", command("whole"));
  ASSERT_EQ(whole.losses.size(), 400U);
  EXPECT_EQ(resumed.losses, whole.losses);
  ASSERT_EQ(resumed.weights.size(), whole.weights.size());
  for (const auto& [name, weight] : whole.weights) EXPECT_TRUE(at::equal(resumed.weights.at(name), weight)) << name;
  for (const auto& name : our_files()) EXPECT_TRUE(before.contains(name)) << name << " left";
}

}  // namespace
}  // namespace lockstep::test
