// Model files as scikit-learn objects, by the very lines of docs/ml.md.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::test {
namespace {

using Words = std::vector<std::string>;

/// Models of rows with the columns a, b, c, y and z. The first word is the command, and the heading in the docs.
const Words kFits[] = {
    {"kmeans", "-k", "4", "--columns", "a,b,c"},
    {"linreg", "--target", "y", "--exclude", "z"},
    {"linreg", "--target", "y,z", "--l2", "2"},
};

class Snippet : public ::testing::TestWithParam<Words> {};
INSTANTIATE_TEST_SUITE_P(Docs, Snippet, ::testing::ValuesIn(kFits),
                         [](const auto& fit) { return fmt::format("{}{}", fit.param.front(), fit.index); });

void write_rows(const TemporaryFolder& folder) {
  const auto values = ml::testing::blobs(500, 5, 4);
  std::string text = "a,b,c,y,z\n";
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    const double* value = values.const_data_ptr<double>() + row * 5;
    text += fmt::format("{},{},{},{},{}\n", value[0], value[1], value[2], value[0] - 2 * value[3], value[4]);
  }
  folder.write("rows.csv", text);
}

TEST_P(Snippet, SaysInPythonWhatPredictSays) {
  const TemporaryFolder folder;
  write_rows(folder);
  const std::string rows = folder / "rows.csv", model = folder / "model.safetensors";
  const std::string& algorithm = GetParam().front();
  Words fit{LOCKSTEP_PROGRAM, algorithm, rows, "-o", model};
  fit.insert(fit.end(), GetParam().begin() + 1, GetParam().end());
  for (const Words& command : {fit, Words{LOCKSTEP_PROGRAM, "predict", model, rows, "-o", folder / "said.csv"}}) {
    const auto answer = answer_of(command, 100);
    ASSERT_EQ(answer.code, 0) << answer.output << answer.errors;
  }
  const auto python = answer_of({LOCKSTEP_PYTHON, LOCKSTEP_SNIPPET, LOCKSTEP_DOCS, algorithm, folder.path()}, 100);
  if (python.code == 77) GTEST_SKIP() << python.output;
  EXPECT_EQ(python.code, 0) << python.output << python.errors;
}

}  // namespace
}  // namespace lockstep::test
