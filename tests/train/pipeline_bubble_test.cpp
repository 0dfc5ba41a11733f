// The stages of a pipeline are idle for as long as the formula of its schedule says, as `lockstep pipeline --measure`
// finds it in the trace of a run.
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/testing.h"

namespace lockstep::test {
namespace {

class PipelineBubble : public testing::TestWithParam<std::string> {
 protected:
  nlohmann::json measured(const std::vector<std::string>& launch, const std::vector<std::string>& work) const {
    const std::string trace = folder_ / "trace.json";
    std::vector<std::string> command{"env", "LOCKSTEP_TRACE=" + trace, LOCKSTEP_PROGRAM, "launch", "-n", "4"};
    command.insert(command.end(), launch.begin(), launch.end());
    for (const std::string& word : {std::string("--"), std::string(LOCKSTEP_EQUAL_STAGES), GetParam()})
      command.push_back(word);
    command.insert(command.end(), work.begin(), work.end());
    const auto run = answer_of(command, 60);
    EXPECT_EQ(run.code, 0) << run.errors;
    const auto answer = answer_of({LOCKSTEP_PROGRAM, "pipeline", "--measure", trace, "--json"}, 60);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    return nlohmann::json::parse(answer.output);
  }

  void expect_formula(const std::vector<std::string>& launch, const std::vector<std::string>& work) const {
    constexpr double kTolerance = 0.1;
    constexpr int kTries = 3;  // the machine may be busy with something else
    double off = 0;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      const auto found = measured(launch, work);
      ASSERT_EQ(found.at("schedule"), GetParam());
      ASSERT_EQ(std::to_string(found.at("steps").get<int>() + 1), work[1]);
      const double idle = found.at("idle"), formula = found.at("formula");
      std::cout << "    idle " << idle << ", by the formula " << formula << "\n";
      off = std::abs(idle / formula - 1);
      if (off <= kTolerance) return;
    }
    ADD_FAILURE() << "idle for " << 100 * off << " % more or less than by the formula";
  }

  const TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Schedules, PipelineBubble, testing::Values("gpipe", "1f1b", "interleaved", "zero_bubble"),
                         [](const auto& test) { return test.param == "1f1b" ? "one_f_one_b" : test.param; });

TEST_P(PipelineBubble, IsThatOfTheFormula) { expect_formula({"--bind", "none"}, {"4", "4", "sleep", "40"}); }

TEST_P(PipelineBubble, OfCoresIsThatOfTheFormula) {
  if (usable_cores().size() < 4) GTEST_SKIP() << "there is no core for each of 4 stages";
  expect_formula({}, {"8", "6", "compute", "10"});
}

}  // namespace
}  // namespace lockstep::test
