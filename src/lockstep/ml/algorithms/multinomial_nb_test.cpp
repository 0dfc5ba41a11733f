#include "lockstep/ml/algorithms/multinomial_nb.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr std::int64_t kRows = 20'001;

struct Counts {
  at::Tensor x = blobs(kRows, 6, 3).abs().mul(2).floor();
  at::Tensor labels = x.select(1, 0).gt(x.select(1, 1)).to(at::kDouble) + x.select(1, 2).gt(5).to(at::kDouble);
  at::Tensor weights = at::arange(kRows, at::kDouble).remainder(4) / 2;
};

TEST(MultinomialNB, IsWhatItsDefinitionSays) {
  const Counts data;
  for (const bool weighted : {false, true}) {
    const auto weights = weighted ? data.weights : at::ones({kRows}, at::kDouble);
    const auto own = at::one_hot(data.labels.to(at::kLong)).to(at::kDouble) * weights.unsqueeze(1);  // [rows, classes]
    const auto counts = own.t().matmul(data.x), smoothed = counts + 0.5;
    const auto log_prob = (smoothed / smoothed.sum(1, true)).log(), log_prior = (own.sum(0) / weights.sum()).log();
    const auto joint = data.x.matmul(log_prob.t()) + log_prior;
    with_table(3, {data.x, data.labels, weighted ? weights : at::Tensor()}, [&](const Table& table) {
      MultinomialNB bayes({.alpha = 0.5});
      bayes.fit(table);
      EXPECT_TRUE(at::equal(bayes.feature_count(), counts));  // sums of halves are exact
      EXPECT_TRUE(at::equal(bayes.class_count(), own.sum(0)));
      EXPECT_TRUE(at::allclose(bayes.feature_log_prob(), log_prob, 1e-13));
      EXPECT_TRUE(at::allclose(bayes.class_log_prior(), log_prior, 1e-13));
      EXPECT_TRUE(at::allclose(bayes.predict_joint_log_proba(data.x), joint, 1e-12));
      EXPECT_TRUE(at::allclose(bayes.predict_log_proba(data.x), joint.log_softmax(1), 1e-9, 1e-11));
      EXPECT_TRUE(at::equal(bayes.predict(data.x), joint.argmax(1)));
      MultinomialNB even({.alpha = 0.5, .fit_prior = false}), given({.alpha = 0.5, .class_prior = {0.5, 0.3, 0.2}});
      even.fit(table);
      given.fit(table);
      EXPECT_TRUE(at::allclose(even.class_log_prior().exp(), at::full({3}, 1.0 / 3, at::kDouble)));
      EXPECT_TRUE(at::allclose(given.class_log_prior().exp(), at::tensor({0.5, 0.3, 0.2}, at::kDouble)));
    });
  }
}

TEST(MultinomialNB, TakesRowsBitByBit) {
  const Counts data;
  with_table(1, {data.x, data.labels}, [&](const Table& table) {
    MultinomialNB all, parts;
    all.fit(table);
    for (const auto& [first, last] : {std::pair(0, 3), std::pair(3, 10'000), std::pair(10'000, 20'001)}) {
      const auto part = make_table(table.group(), {data.x.slice(0, first, last), data.labels.slice(0, first, last)});
      parts.partial_fit(*part, {0, 1, 2});
    }
    EXPECT_TRUE(at::equal(parts.feature_count(), all.feature_count()));
    EXPECT_TRUE(at::equal(parts.feature_log_prob(), all.feature_log_prob()));
    EXPECT_TRUE(at::equal(parts.class_log_prior(), all.class_log_prior()));
    EXPECT_EQ(parts.score(table), all.score(table));
  });
}

TEST(MultinomialNB, RowsThatAreRefusedLeaveNoTrace) {
  const Counts data;
  auto negative = data.x.clone(), missing = data.x.clone();
  negative[15'000][4] = -1;
  missing[15'000][4] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {data.x, data.labels}, [&](const Table& table) {
    const auto refuse = [&](MultinomialNB& bayes, const at::Tensor& x, const std::vector<double>& classes) {
      const auto bad = make_table(table.group(), {testing::part_of(x, table.group().rank(), 2),
                                                  testing::part_of(data.labels, table.group().rank(), 2)});
      EXPECT_FALSE(test::message_of([&] { bayes.partial_fit(*bad, classes); }, Fault::Data).empty());
    };
    MultinomialNB clean, disturbed;
    // The classes of rows that are refused at first are no classes either.
    refuse(disturbed, missing, {0, 1, 2, 9});
    refuse(disturbed, negative, {0, 1, 2, 9});
    for (int i = 0; i < 2; ++i) {
      clean.partial_fit(table);
      disturbed.partial_fit(table);
      refuse(disturbed, negative, {});
      refuse(disturbed, missing, {});
    }
    EXPECT_EQ(disturbed.classes().values(), clean.classes().values());
    EXPECT_TRUE(at::equal(disturbed.feature_count(), clean.feature_count()));
    EXPECT_TRUE(at::equal(disturbed.feature_log_prob(), clean.feature_log_prob()));
    EXPECT_TRUE(at::equal(disturbed.class_log_prior(), clean.class_log_prior()));
    EXPECT_EQ(disturbed.score(table), clean.score(table));
  });
}

TEST(MultinomialNB, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const Counts data;
  at::Tensor first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {data.x + 0.1, data.labels}, [&, threads = threads](const Table& table) {
      MultinomialNB bayes({.threads = threads});
      bayes.fit(table);
      if (table.group().rank() == 0 && !first.defined()) first = bayes.feature_log_prob();
      EXPECT_TRUE(at::equal(bayes.feature_log_prob(), first));
    });
  }
}

TEST(MultinomialNB, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const Counts data;
  with_table(1, {data.x, data.labels, {}, {"a", "b", "c", "d", "e", "f"}, {"kind"}}, [&](const Table& table) {
    MultinomialNB bayes;
    bayes.fit(table);
    write_model(folder / "model", bayes.file(table));
    const auto file = read_model(folder / "model");
    const auto predictor = PredictorRegistry::instance().at("algorithm", file.algorithm)(file);
    EXPECT_TRUE(at::equal(predictor->predict(data.x), bayes.predict(data.x)));
    EXPECT_EQ(test::message_of([&] { MultinomialNB::from(file).partial_fit(table); }),
              "a model from a file has not the sums of its rows, which more rows are added to: call fit()");
  });
}

TEST(MultinomialNB, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { MultinomialNB bayes({.alpha = -1}); }), "alpha = -1: it is from 0 on");
  EXPECT_EQ(test::message_of([] { MultinomialNB bayes({.class_prior = {2, -1}}); }),
            "class_prior = 2, -1: they are from 0 on, and their sum is 1");
  Counts data;
  data.x[15'000][4] = -1;
  with_table(3, {data.x, data.labels}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { MultinomialNB().fit(table); }, Fault::Data),
              "row 15000, column 4 is below 0, and so no count");
  });
}

}  // namespace
}  // namespace lockstep::ml
