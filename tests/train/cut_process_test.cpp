// Models that are cut over ranks learn what one process learns, as `lockstep train` starts them: ranks are processes
// that share memory. The same layouts on threads are src/lockstep/train/cut_test.cpp.
#include <string>
#include <tuple>
#include <vector>

#include "cut_run.h"

namespace lockstep::test {
namespace {

using train::testing::layout_named;

using Case = std::tuple<std::string, Layout>;
class CutProcesses : public testing::TestWithParam<Case> {};

std::string name_of(const testing::TestParamInfo<Case>& test) {
  return std::get<0>(test.param) + "_" + std::get<1>(test.param).name;
}

std::vector<Case> ten_cases() {
  std::vector<Case> cases;
  for (const auto& [model, layouts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"gpt",
            {"data2", "tensor2", "pipe2_interleaved", "zero3_data2", "pipe2_tensor2_data2_one_f_one_b",
             "zero3_pipe2_data2_tensor2"}},
           {"mlp", {"pipe2_zero_bubble", "zero2_data3_pieces2"}},
           {"resnet18", {"zero1_data2_tensor2", "pipe2_data2_gpipe"}}}) {
    for (const auto& layout : layouts) cases.emplace_back(model, layout_named(layout));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ten, CutProcesses, testing::ValuesIn(ten_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Full, CutProcesses,
                         testing::Combine(testing::Values("gpt", "mlp", "resnet18"),
                                          testing::ValuesIn(train::testing::all_layouts())),
                         name_of);

TEST_P(CutProcesses, LearnAsOne) {
  const auto& [model, layout] = GetParam();
  const CutRuns runs(model);
  const Learned cut = runs.learn("cut", runs.command("cut", {"-n", std::to_string(layout.ranks)}, layout.settings));
  ASSERT_EQ(cut.losses.size(), 20U);
  train::testing::expect_same(cut, runs.learn_as_one_process(layout), layout.name);
}

class CutProcessesOnAGpu : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Gpt, CutProcessesOnAGpu,
                         testing::Values("tensor2", "pipe2_tensor2_data2_one_f_one_b", "zero3_pipe2_data2_tensor2"),
                         [](const auto& test) { return test.param; });

TEST_P(CutProcessesOnAGpu, LearnAsOneOnTheCpu) {
  if (!std::filesystem::exists("/dev/nvidia0")) GTEST_SKIP() << "there is no GPU";
  Layout layout = layout_named(GetParam());
  const CutRuns runs("gpt");
  auto settings = layout.settings;
  settings.emplace_back("device=cuda");
  const Learned cut = runs.learn("cut", runs.command("cut", {"-n", std::to_string(layout.ranks)}, settings));
  ASSERT_EQ(cut.losses.size(), 20U);
  train::testing::expect_same(cut, runs.learn_as_one_process(layout), layout.name);
}

}  // namespace
}  // namespace lockstep::test
