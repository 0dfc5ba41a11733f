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

/// Of rows with three columns, of which a, b, c and the counts k, l, m explain others, and of numbers and text, some of
/// them missing, to be encoded; "ROWS", "MODEL" and "SAID" stand for files.
struct Fit {
  std::string heading;  // in the docs
  Words words;
};

const Fit kFits[] = {
    {"kmeans", {"kmeans", "ROWS", "-o", "MODEL", "-k", "4", "--columns", "a,b,c"}},
    {"linreg", {"linreg", "ROWS", "-o", "MODEL", "--target", "y", "--columns", "a,b,c"}},
    {"linreg", {"linreg", "ROWS", "-o", "MODEL", "--target", "y,z", "--l2", "2", "--columns", "a,b,c"}},
    {"lasso", {"lasso", "ROWS", "-o", "MODEL", "--target", "y", "--alpha", "0.1", "--columns", "a,b,c"}},
    {"elasticnet", {"elasticnet", "ROWS", "-o", "MODEL", "--target", "y", "--columns", "a,b,c"}},
    {"linreg",
     {"linreg", "ROWS", "-o", "MODEL", "--target", "y", "--columns", "a,b,gap,size", "--onehot", "word", "--ordinal",
      "size", "--missing", "mean", "--scale", "standard"}},
    {"linreg",
     {"linreg", "ROWS", "-o", "MODEL", "--target", "y", "--columns", "a", "--onehot", "half", "--ordinal",
      "grade,month,third", "--missing", "mean"}},
    {"lasso", {"lasso", "ROWS", "-o", "MODEL", "--target", "y,z", "--alpha", "0.1", "--columns", "a,b,c"}},
    {"knn --regression",
     {"knn", "ROWS", "ROWS", "-o", "SAID", "--model", "MODEL", "--target", "y,z", "--regression", "--columns", "a,b"}},
    {"logreg", {"logreg", "ROWS", "-o", "MODEL", "--target", "kind", "--columns", "a,b,c"}},
    {"logreg", {"logreg", "ROWS", "-o", "MODEL", "--target", "word", "--columns", "a,b,c", "--scale", "minmax"}},
    {"knn", {"knn", "ROWS", "ROWS", "-o", "SAID", "--model", "MODEL", "--target", "word", "--columns", "a,b"}},
    {"naivebayes --kind gaussian", {"naivebayes", "ROWS", "-o", "MODEL", "--target", "kind", "--columns", "a,b,c"}},
    {"naivebayes --kind multinomial",
     {"naivebayes", "ROWS", "-o", "MODEL", "--target", "kind", "--kind", "multinomial", "--columns", "k,l,m"}},
    {"knn",
     {"knn", "ROWS", "ROWS", "-o", "SAID", "--model", "MODEL", "--target", "kind", "-k", "3", "--columns", "a,b,c"}},
    {"knn --regression",
     {"knn", "ROWS", "ROWS", "-o", "SAID", "--model", "MODEL", "--target", "y", "--regression", "--columns", "a,b,c"}},
    {"pca", {"pca", "ROWS", "-o", "MODEL", "--components", "2", "--columns", "a,b,c"}},
    {"pca", {"pca", "ROWS", "-o", "MODEL", "--whiten", "--columns", "a,b,c"}},
    {"svd", {"svd", "ROWS", "-o", "MODEL", "--components", "2", "--columns", "a,b,c"}},
    {"covariance", {"covariance", "ROWS", "-o", "MODEL", "--columns", "a,b,c"}},
};

class Snippet : public ::testing::TestWithParam<Fit> {};
INSTANTIATE_TEST_SUITE_P(Docs, Snippet, ::testing::ValuesIn(kFits),
                         [](const auto& fit) { return fmt::format("{}{}", fit.param.words.front(), fit.index); });

void write_rows(const TemporaryFolder& folder) {
  const auto values = ml::testing::blobs(500, 5, 4);
  const char *words[] = {"red", "blue", "green"}, *sizes[] = {"S", "M", "L"};
  std::string text = "a,b,c,y,z,kind,k,l,m,word,size,gap,month,half,third,grade\n";
  const auto unless = [](bool missing, const auto& value) { return missing ? "" : fmt::format("{}", value); };
  for (std::int64_t row = 0; row < values.size(0); ++row) {
    const double* value = values.const_data_ptr<double>() + row * 5;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", value[0], value[1], value[2],
                        value[0] - 2 * value[3], value[4], (value[0] > 0) + 2 * (value[1] > 1), row % 7, row * row % 11,
                        row % 3, words[value[0] > 0 ? row % 5 % 2 : 2], sizes[row * row % 3],
                        unless(row % 9 == 0, value[3]), row * 7 % 12 + 1, static_cast<double>(row % 5) / 2,
                        unless(row % 10 == 3, static_cast<double>(row % 4) / 3), unless(row % 8 == 5, sizes[row % 3]));
  }
  folder.write("rows.csv", text);
}

TEST_P(Snippet, SaysInPythonWhatPredictSays) {
  const TemporaryFolder folder;
  write_rows(folder);
  const std::string rows = folder / "rows.csv", model = folder / "model.safetensors", said = folder / "said.csv";
  Words fit{LOCKSTEP_PROGRAM};
  for (const std::string& word : GetParam().words) {
    fit.push_back(word == "ROWS" ? rows : word == "MODEL" ? model : word == "SAID" ? said : word);
  }
  for (const Words& command : {fit, Words{LOCKSTEP_PROGRAM, "predict", model, rows, "-o", said}}) {
    const auto answer = answer_of(command, 100);
    ASSERT_EQ(answer.code, 0) << answer.output << answer.errors;
  }
  const auto python =
      answer_of({LOCKSTEP_PYTHON, LOCKSTEP_SNIPPET, LOCKSTEP_DOCS, GetParam().heading, folder.path()}, 100);
  if (python.code == 77) GTEST_SKIP() << python.output;
  EXPECT_EQ(python.code, 0) << python.output << python.errors;
}

}  // namespace
}  // namespace lockstep::test
