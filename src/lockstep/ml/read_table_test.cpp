#include "lockstep/ml/read_table.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/folds.h"

namespace lockstep::ml {
namespace {

using comm::Communicator;
using comm::testing::on_ranks;
using Names = std::vector<std::string>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// All rows of a table that one rank has.
at::Tensor values_of(const Table& table) {
  at::Tensor scratch;
  const Block block = table.block(0, scratch);
  return at::tensor(at::ArrayRef<double>(block.x<double>(), static_cast<std::size_t>(block.rows * table.columns())))
      .view({block.rows, table.columns()});
}

std::vector<double> targets_of(const Table& table) {
  at::Tensor scratch;
  const Block block = table.block(0, scratch);
  return {block.targets, block.targets + block.rows * table.targets()};
}

class ReadTable : public ::testing::Test {
 protected:
  std::unique_ptr<Table> read(Communicator& group, const ReadOptions& options) const {
    return read_table(group, folder_ / "table.csv", {}, options);
  }
  void write(const std::string& text) const { folder_.write("table.csv", text); }

  const test::TemporaryFolder folder_;
};

TEST_F(ReadTable, MakesAColumnOfEachText) {
  write("size,city,price\n1,Ulm,10\n2,Bonn,20\n3,,30\n4,Ulm,40\n");
  on_ranks({1}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.targets = {"price"}, .onehot = {"city"}}});
    EXPECT_EQ(table->names(), (Names{"size", "city=", "city=Bonn", "city=Ulm"}));
    const auto expected = at::tensor({1., 0., 0., 1., 2., 0., 1., 0., 3., 1., 0., 0., 4., 0., 0., 1.});
    EXPECT_TRUE(at::equal(values_of(*table), expected.to(at::kDouble).view({4, 4})));
    EXPECT_EQ(targets_of(*table), (std::vector<double>{10, 20, 30, 40}));
  });
}

TEST_F(ReadTable, NumbersTextsAndNumbersInTheirOrder) {
  write("grade,month\nlow,3\nhigh,12\nmid,3\n");
  on_ranks({1}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.onehot = {"month"}, .ordinal = {"grade"}}});
    EXPECT_EQ(table->names(), (Names{"grade", "month=3", "month=12"}));
    const auto expected = at::tensor({1., 1., 0., 0., 0., 1., 2., 1., 0.}).to(at::kDouble).view({3, 3});
    EXPECT_TRUE(at::equal(values_of(*table), expected));
  });
}

TEST_F(ReadTable, SortsNumbersThatAreEncodedByValue) {
  write("a,b\n10,1.5\n-3,20\n9,-7\n2,1e3\n10,\n9007199254740993,0\n9007199254740992,2\n");
  on_ranks({2}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.ordinal = {"a", "b"}}, .preparation = {.missing = "mean"}});
    const Categories expected{{"a", {"-3", "2", "9", "10", "9007199254740992", "9007199254740993"}},
                              {"b", {"-7", "0", "1.5", "2", "20", "1000"}}};
    EXPECT_EQ(table->preparation()->categories, expected);
    if (table->own_rows() == 0) return;
    EXPECT_TRUE(at::equal(values_of(*table).select(1, 0), at::tensor({3., 0., 2., 1., 3., 5., 4.}, at::kDouble)));
    EXPECT_TRUE(at::equal(values_of(*table).select(1, 1), at::tensor({2., 4., 0., 5., 2.5, 1., 3.}, at::kDouble)));
  });
}

TEST_F(ReadTable, KnowsEncodedNumbersByValueInOtherFiles) {
  on_ranks({1}, [&](Communicator& group) {
    const auto prepared = [&](const std::string& text, const Preparation* like) {
      write(text);
      return read(group, {.choice = {.onehot = {"d"}, .ordinal = {"m"}}, .like = like});
    };
    const std::string whole = "m,d\n3,1\n10,2\n2,1\n", points = "m,d\n3,1.0\n10.0,2\n2,1\n";
    for (const auto& [first, second] : {std::pair(whole, points), std::pair(points, whole)}) {
      const auto fitted = prepared(first, nullptr), other = prepared(second, fitted->preparation().get());
      EXPECT_EQ(other->names(), fitted->names());
      EXPECT_TRUE(at::equal(values_of(*other), values_of(*fitted)));
    }
    // As models have them that were written before numbers were sorted.
    Preparation old;
    old.onehot = {"d"};
    old.ordinal = {"m"};
    old.categories = {{"d", {"1.0", "2.0"}}, {"m", {"10", "2", "3"}}};
    EXPECT_TRUE(at::equal(values_of(*prepared(whole, &old)),
                          at::tensor({2., 1., 0., 0., 0., 1., 1., 1., 0.}, at::kDouble).view({3, 3})));
  });
}

TEST_F(ReadTable, TakesATextAsTarget) {
  write("x,kind\n1,b\n2,a\n3,c\n4,a\n");
  on_ranks({1}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.targets = {"kind"}}});
    EXPECT_EQ(targets_of(*table), (std::vector<double>{1, 0, 2, 0}));
    EXPECT_EQ(table->value_names(), (Names{"a", "b", "c"}));
  });
}

TEST_F(ReadTable, FindsTheTextsOfAllRanks) {
  std::string text = "x,word\n";
  for (int i = 0; i < 10'000; ++i) text += fmt::format("{},w{}\n", i, i / 100);
  write(text);
  on_ranks({3}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.onehot = {"word"}}});
    EXPECT_EQ(table->columns(), 101);
    EXPECT_EQ(table->names()[1], "word=w0");
    EXPECT_EQ(table->names()[100], "word=w99");
  });
}

TEST_F(ReadTable, OfMoreThanFitsIntoMemoryGivesTheSameBits) {
  std::string text = "a,b,word,y,w\n";
  for (int i = 0; i < 20'000; ++i)
    text += fmt::format("{},{},{},{},{}\n", i % 97, i % 31 * 0.25, "pqr"[i % 3], i % 13, i % 4);
  write(text);
  const ColumnChoice choice{.targets = {"y"}, .weights = "w", .onehot = {"word"}};
  at::Tensor coef, centers;
  for (const std::int64_t memory : {std::int64_t{1} << 30, std::int64_t{1000}}) {
    for (const int ranks : {1, 2}) {
      on_ranks({ranks}, [&](Communicator& group) {
        const auto table = read(group, {.choice = choice, .threads = 2, .memory_bytes = memory});
        LinearRegression regression;
        regression.fit(*table);
        KMeans kmeans({.n_clusters = 4, .max_iter = 5});
        kmeans.fit(*table);
        if (group.rank() == 0 && !coef.defined()) {
          coef = regression.model().coef;
          centers = kmeans.cluster_centers();
        }
        EXPECT_TRUE(at::equal(regression.model().coef, coef));
        EXPECT_TRUE(at::equal(kmeans.cluster_centers(), centers));
      });
    }
  }
}

TEST_F(ReadTable, OfMoreThanFitsIntoMemoryReadsSomeRows) {
  std::string text = "a,b,y,w\n";
  for (int i = 0; i < 20'000; ++i) text += fmt::format("{},{},{},{}\n", i, i % 31 * 0.25, i % 13, i % 4);
  write(text);
  const ColumnChoice choice{.targets = {"y"}, .weights = "w"};
  on_ranks({1}, [&](Communicator& group) {
    const auto stored = read(group, {.choice = choice, .memory_bytes = 1000});
    const auto in_memory = read(group, {.choice = choice});
    const auto weighed = fold_alone(*stored, deal_rows(*stored, 3), 1);
    at::Tensor scratch, other;
    for (const std::int64_t first : {0, 8190, 8192, 19'997}) {
      const Block one = stored->some(first, 2, scratch), two = in_memory->some(first, 2, other);
      EXPECT_EQ(one.first, first);
      for (std::int64_t row = 0; row < 2; ++row) {
        EXPECT_EQ(one.x<double>()[2 * row], static_cast<double>(first + row));
        EXPECT_EQ(one.x<double>()[2 * row + 1], two.x<double>()[2 * row + 1]);
        EXPECT_EQ(one.targets[row], two.targets[row]);
        EXPECT_EQ(one.weight(row), static_cast<double>((first + row) % 4));
        EXPECT_EQ(two.weight(row), one.weight(row));
      }
      const Block own = weighed->some(first, 2, scratch);
      const bool inside = first >= 6667 && first < 13'333;
      EXPECT_EQ(own.weight(1), inside ? static_cast<double>((first + 1) % 4) : 0) << first;
    }
  });
}

TEST_F(ReadTable, FillsInLeavesOutAndScales) {
  write("a,b,word\n1,10,p\n3,,q\n,30,p\n5,50,q\n");
  for (const int ranks : {1, 2}) {
    for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{1}}) {
      on_ranks({ranks}, [&](Communicator& group) {
        const ColumnChoice choice{.onehot = {"word"}};
        const auto filled = read(group, {.choice = choice, .preparation = {.missing = "mean"}, .memory_bytes = memory});
        EXPECT_EQ(filled->preparation()->fill, (std::vector<double>{3, 30, 0.5, 0.5}));
        const auto scaled = read(
            group, {.choice = choice, .preparation = {.missing = "mean", .scale = "standard"}, .memory_bytes = memory});
        if (filled->own_rows() == 0) return;  // there is one block
        EXPECT_TRUE(at::equal(values_of(*filled).slice(1, 0, 2),
                              at::tensor({1., 10., 3., 30., 3., 30., 5., 50.}).to(at::kDouble).view({4, 2})));
        // As scikit-learn's StandardScaler behind its SimpleImputer; columns of words stay as they are.
        const double a = std::sqrt(2), b = std::sqrt(200);
        const auto expected =
            at::tensor({-2 / a, -20 / b, 1., 0., 0., 0., 0., 1., 0., 0., 1., 0., 2 / a, 20 / b, 0., 1.});
        EXPECT_TRUE(at::allclose(values_of(*scaled), expected.to(at::kDouble).view({4, 4}), 1e-14, 0));
      });
    }
    on_ranks({ranks}, [&](Communicator& group) {
      const auto whole =
          read(group, {.choice = {.exclude = {"word"}}, .preparation = {.missing = "drop", .scale = "minmax"}});
      EXPECT_EQ(whole->rows(), 2);
      if (whole->own_rows() == 0) return;
      EXPECT_TRUE(at::equal(values_of(*whole), at::tensor({0., 0., 1., 1.}).to(at::kDouble).view({2, 2})));
    });
  }
}

TEST_F(ReadTable, RefusesToScaleWhatIsTooLarge) {
  const auto refusal = [&](const PreparationChoice& preparation, const ColumnChoice& choice = {}) {
    std::string message;
    on_ranks({2}, [&](Communicator& group) {
      const auto said =
          test::message_of([&] { read(group, {.choice = choice, .preparation = preparation}); }, Fault::Data);
      if (group.rank() == 0) message = said;
    });
    return message;
  };
  write("a,b\n1,1e200\n2,-1e200\n3,5e199\n");
  EXPECT_EQ(refusal({.scale = "standard"}), "squares of 'b' are too large for float64; use --scale minmax");
  on_ranks({1}, [&](Communicator& group) {
    EXPECT_EQ(values_of(*read(group, {.preparation = {.scale = "minmax"}})).select(1, 1).max().item<double>(), 1);
  });
  write("a,b\n1,1.5e308\n2,-1.5e308\n");
  EXPECT_EQ(refusal({.scale = "minmax"}),
            "values of 'b' lie too far apart for float64; divide them, or leave it out by --exclude");
  write("a,w\n1,0\n2,0\n");
  for (const PreparationChoice& one : {PreparationChoice{.scale = "standard"}, PreparationChoice{.scale = "minmax"},
                                       PreparationChoice{.missing = "mean"}}) {
    EXPECT_EQ(refusal(one, {.weights = "w"}),
              "the weights of all rows are 0; leave --weights out, or name another field");
  }
}

TEST_F(ReadTable, TextThatIsMissingIsNoClass) {
  write("a,kind\n1,red\n2,\n3,blue\n,red\n");
  on_ranks({2}, [&](Communicator& group) {
    const auto all = read(group, {.choice = {.targets = {"kind"}}});
    EXPECT_EQ(all->value_names(), (Names{"blue", "red"}));
    EXPECT_TRUE(has(test::message_of([&] { check_finite(*all); }, Fault::Data), "row 1, 'kind'"));
    const auto whole = read(group, {.choice = {.targets = {"kind"}}, .preparation = {.missing = "drop"}});
    EXPECT_EQ(whole->rows(), 2);
    EXPECT_EQ(whole->left_out(), 2);
    const auto ordinal = read(group, {.choice = {.ordinal = {"kind"}}});
    EXPECT_TRUE(has(test::message_of([&] { check_finite(*ordinal); }, Fault::Data), "row 1, 'kind'"));
    const auto onehot = read(group, {.choice = {.onehot = {"kind"}}});
    EXPECT_EQ(onehot->names(), (Names{"a", "kind=", "kind=blue", "kind=red"}));
  });
}

TEST_F(ReadTable, TakesEncodedFieldsBesideNamedColumns) {
  write("a,b,city\n1,2,Ulm\n2,3,Bonn\n");
  on_ranks({2}, [&](Communicator& group) {
    const auto table = read(group, {.choice = {.columns = {"a"}, .onehot = {"city"}}});
    EXPECT_EQ(table->names(), (Names{"a", "city=Bonn", "city=Ulm"}));
  });
}

TEST_F(ReadTable, SaysWhatMissingValuesLeave) {
  write("a,b\n1,\n,2\n");
  on_ranks({2}, [&](Communicator& group) {
    EXPECT_TRUE(has(test::message_of([&] { read(group, {.preparation = {.missing = "drop"}}); }),
                    "no row is left: all 2 have missing values"));
  });
  write("a,b\n1,\n2,\n");
  on_ranks({2}, [&](Communicator& group) {
    EXPECT_TRUE(has(test::message_of([&] { read(group, {.preparation = {.missing = "mean"}}); }, Fault::Data),
                    "'b' has no value at all"));
  });
  write("a\n\n1\ninf\n");
  on_ranks({2}, [&](Communicator& group) {
    const auto table = read(group, {.preparation = {.missing = "drop"}});
    EXPECT_TRUE(has(test::message_of([&] { check_finite(*table); }, Fault::Data),
                    "row 1 (counted without those left out), 'a' is infinite"));
  });
}

TEST_F(ReadTable, NamesWhatCannotBeRead) {
  write("a,city\n1,Ulm\n2,Bonn\n");
  on_ranks({2}, [&](Communicator& group) {
    const std::string message = test::message_of([&] { read(group, {}); });
    EXPECT_TRUE(has(message, "city is text, such as 'Ulm' in ") && has(message, "--onehot city or --ordinal city"))
        << message;
    EXPECT_TRUE(has(test::message_of([&] { read(group, {.choice = {.columns = {"a", "a"}}}); }),
                    "'a' is named twice by --columns"));
    EXPECT_TRUE(has(test::message_of([&] { read(group, {.choice = {.columns = {"a"}, .exclude = {"a"}}}); }),
                    "left out by --exclude"));
    EXPECT_TRUE(has(test::message_of([&] { read(group, {.choice = {.onehot = {"town"}}}); }), "'town'"));
  });
  const auto set = data::open(folder_ / "table.csv");
  const RowLayout layout(*set, {.onehot = {"city"}}, {{"city", {"Bonn"}}});
  EXPECT_TRUE(has(test::message_of([&] { read_rows(*set, 0, 2, layout, 1); }, Fault::Data),
                  "'city' is 'Ulm', which is none of the 1 values that the model knows"));
  EXPECT_EQ(layout.fields(), (Names{"a", "city"}));
  EXPECT_EQ(layout.names(), (Names{"a", "city=Bonn"}));
}

}  // namespace
}  // namespace lockstep::ml
