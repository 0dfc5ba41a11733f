// The same over four hosts, which with_hosts.sh has made: neighbours are on different ones.
#include <string>
#include <vector>

#include "cut_run.h"

namespace lockstep::test {
namespace {

void expect_learns_as_one(const std::string& model, const std::string& name) {
  const Layout layout = train::testing::layout_named(name);
  const CutRuns runs(model);
  auto command = runs.command("hosts", {"--hosts", "ls1:1,ls2:1,ls3:1,ls4:1"}, layout.settings);
  command.insert(command.begin(), LOCKSTEP_LAUNCH_ON_HOSTS);
  const Learned cut = runs.learn("hosts", command);
  ASSERT_EQ(cut.losses.size(), 20U);
  train::testing::expect_same(cut, runs.learn_as_one_process(layout), name);
}

TEST(CutHosts, ShareOutWhatIsSplit) { expect_learns_as_one("gpt", "zero3_data2_tensor2"); }
TEST(CutHosts, AreStages) { expect_learns_as_one("gpt", "pipe2_data2_zero_bubble"); }

}  // namespace
}  // namespace lockstep::test
