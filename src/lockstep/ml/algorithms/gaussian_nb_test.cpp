#include "lockstep/ml/algorithms/gaussian_nb.h"

#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

constexpr std::int64_t kRows = 20'001;

at::Tensor labels_for(const at::Tensor& x) {
  return (x.select(1, 0) + blobs(x.size(0), 1, 1, 4).select(1, 0)).mul(0.2).floor().clamp(-1, 1) * 3;
}

struct Expected {
  at::Tensor theta, var, prior, log_proba;
};

Expected by_definition(const at::Tensor& x, const at::Tensor& labels, const at::Tensor& weights, double smoothing) {
  Expected expected;
  std::vector<at::Tensor> theta, var, prior, joint;
  const double epsilon = smoothing * x.var(0, /*unbiased=*/false).max().item<double>();
  for (const double value : {-3.0, 0.0, 3.0}) {
    const at::Tensor own = weights * labels.eq(value).to(at::kDouble), share = (own / own.sum()).unsqueeze(1);
    theta.push_back((x * share).sum(0));
    var.push_back(((x - theta.back()).square() * share).sum(0) + epsilon);
    prior.push_back(own.sum() / weights.sum());
    joint.push_back(prior.back().log() - 0.5 * (2 * std::numbers::pi * var.back()).log().sum() -
                    0.5 * ((x - theta.back()).square() / var.back()).sum(1));
  }
  return {at::stack(theta), at::stack(var), at::stack(prior), at::stack(joint, 1).log_softmax(1)};
}

TEST(GaussianNB, IsWhatItsDefinitionSays) {
  auto x = blobs(kRows, 5, 3, 1, 1e4);
  x.select(1, 3).mul_(1e-3);
  const auto labels = labels_for(x - 1e4), some = at::arange(kRows, at::kDouble).cos() + 1;
  for (const bool weighted : {false, true}) {
    const auto expected = by_definition(x, labels, weighted ? some : at::ones({kRows}, at::kDouble), 1e-9);
    with_table(3, {x, labels, weighted ? some : at::Tensor()}, [&](const Table& table) {
      GaussianNB bayes;
      bayes.fit(table);
      EXPECT_EQ(bayes.classes().values(), (std::vector<double>{-3, 0, 3}));
      EXPECT_TRUE(at::allclose(bayes.theta(), expected.theta, 1e-13, 0));
      EXPECT_TRUE(at::allclose(bayes.var(), expected.var, 1e-10, 0));
      EXPECT_TRUE(at::allclose(bayes.class_prior(), expected.prior, 1e-13, 0));
      EXPECT_TRUE(at::allclose(bayes.predict_log_proba(x), expected.log_proba, 1e-8, 1e-8));
      EXPECT_TRUE(at::allclose(bayes.predict_proba(x), expected.log_proba.exp(), 1e-8, 1e-10));
      const auto said = bayes.predict(x);
      EXPECT_TRUE(at::equal(said, expected.log_proba.argmax(1) * 3 - 3));
      const auto right = said.eq(labels).to(at::kDouble) * (weighted ? some : at::ones({kRows}, at::kDouble));
      EXPECT_NEAR(bayes.score(table), right.sum().item<double>() / (weighted ? some.sum().item<double>() : 1. * kRows),
                  1e-12);
    });
  }
}

TEST(GaussianNB, TakesRowsBitByBit) {
  const auto x = blobs(kRows, 4, 3), labels = labels_for(x), weights = at::arange(kRows, at::kDouble).cos() + 1;
  for (const bool weighted : {false, true}) {
    with_table(1, {x, labels, weighted ? weights : at::Tensor()}, [&](const Table& table) {
      GaussianNB all, parts;
      all.fit(table);
      for (const auto& [first, last] : {std::pair(0, 5), std::pair(5, 9000), std::pair(9000, 20'001)}) {
        const auto part = make_table(table.group(), {x.slice(0, first, last), labels.slice(0, first, last),
                                                     weighted ? weights.slice(0, first, last) : at::Tensor()});
        parts.partial_fit(*part, {3, -3, 0});
      }
      EXPECT_EQ(parts.classes().values(), all.classes().values());
      EXPECT_TRUE(at::allclose(parts.theta(), all.theta(), 1e-12, 1e-13));
      EXPECT_TRUE(at::allclose(parts.var(), all.var(), 1e-12, 0));
      EXPECT_TRUE(at::allclose(parts.class_prior(), all.class_prior(), 1e-13, 0));
      EXPECT_NEAR(parts.epsilon() / all.epsilon(), 1, 1e-12);
    });
  }
}

TEST(GaussianNB, TakesPriors) {
  const auto x = blobs(5000, 3, 2), labels = labels_for(x);
  with_table(2, {x, labels}, [&](const Table& table) {
    GaussianNB bayes({.priors = {0.5, 0.25, 0.25}}), usual;
    bayes.fit(table);
    usual.fit(table);
    EXPECT_TRUE(at::allclose(bayes.class_prior(), at::tensor({0.5, 0.25, 0.25}, at::kDouble)));
    const auto joint = usual.predict_joint_log_proba(x) - usual.class_prior().log() + bayes.class_prior().log();
    EXPECT_TRUE(at::allclose(bayes.predict_joint_log_proba(x), joint, 1e-12, 1e-12));
  });
}

TEST(GaussianNB, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 7, 3), labels = labels_for(x);
  for (const auto type : {at::kDouble, at::kFloat}) {
    at::Tensor theta, var;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type), labels}, [&, threads = threads](const Table& table) {
        GaussianNB bayes({.threads = threads});
        bayes.fit(table);
        if (table.group().rank() == 0 && !theta.defined()) {
          theta = bayes.theta();
          var = bayes.var();
        }
        EXPECT_TRUE(at::equal(bayes.theta(), theta));
        EXPECT_TRUE(at::equal(bayes.var(), var));
      });
    }
  }
}

TEST(GaussianNB, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(500, 3, 2), labels = labels_for(x);
  with_table(1, {x, labels, {}, {"a", "b", "c"}, {"kind"}}, [&](const Table& table) {
    GaussianNB bayes;
    bayes.fit(table);
    write_model(folder / "model", bayes.file(table));
    const auto file = read_model(folder / "model");
    const auto predictor = PredictorRegistry::instance().at("algorithm", file.algorithm)(file);
    EXPECT_EQ(predictor->outputs(), std::vector<std::string>{"kind"});
    EXPECT_TRUE(at::equal(predictor->predict(x), bayes.predict(x)));
    EXPECT_TRUE(at::equal(predictor->predict_proba(x), bayes.predict_proba(x)));
    auto again = GaussianNB::from(file);
    EXPECT_EQ(test::message_of([&] { again.partial_fit(table); }),
              "a model from a file has not the sums of its rows, which more rows are added to: call fit()");
    again.fit(table);
    EXPECT_TRUE(at::equal(again.var(), bayes.var()));
  });
}

TEST(GaussianNB, KnowsRowsThatWeighNothingBySmoothingAlone) {
  const auto x = blobs(kRows, 4, 3), labels = labels_for(x), weights = at::ones({kRows}, at::kDouble);
  weights.slice(0, 5, 1000).zero_();
  x[7].fill_(1e3);
  GaussianNB all, without({.var_smoothing = 0});
  with_table(2, {x, labels, weights}, [&](const Table& table) {
    GaussianNB bayes({.var_smoothing = 0.1});
    bayes.fit(table);
    if (table.group().rank() == 0) all = bayes;
  });
  const auto kept = [](const at::Tensor& rows) { return at::cat({rows.slice(0, 0, 5), rows.slice(0, 1000)}); };
  with_table(1, {kept(x), kept(labels)}, [&](const Table& table) { without.fit(table); });
  const double expected = 0.1 * x.var(0, /*unbiased=*/false).max().item<double>();  // of all rows, as in scikit-learn
  EXPECT_NEAR(all.epsilon(), expected, 1e-12 * expected);
  EXPECT_TRUE(at::allclose(all.var() - all.epsilon(), without.var(), 1e-9, 0));
}

TEST(GaussianNB, RefusesWhatMakesNoSense) {
  EXPECT_EQ(test::message_of([] { GaussianNB bayes({.priors = {0.5, 0.6}}); }),
            "priors = 0.5, 0.6: they are from 0 on, and their sum is 1");
  EXPECT_EQ(test::message_of([] { GaussianNB bayes({.var_smoothing = -1}); }), "var_smoothing = -1: it is from 0 on");
  auto x = blobs(9000, 3, 2);
  const auto labels = labels_for(x);
  with_table(2, {x, labels}, [&](const Table& table) {
    EXPECT_EQ(test::message_of([&] { GaussianNB({.priors = {0.5, 0.5}}).fit(table); }), "2 priors for 3 classes");
    EXPECT_EQ(test::message_of([&] { GaussianNB().partial_fit(table, {1, 1}); }),
              "1, 1 are no classes: these are different numbers");
    const std::int64_t first = labels.eq(3).nonzero()[0].item<std::int64_t>();
    EXPECT_EQ(test::message_of([&] { GaussianNB().partial_fit(table, {-3, 0}); }, Fault::Data),
              fmt::format("'target' of row {} is none of the 2 classes of the first fit", first));
    GaussianNB other;
    other.fit(table);
    const auto narrow = make_table(table.group(), {blobs(50, 2, 1), at::zeros({50}, at::kDouble)});
    EXPECT_EQ(test::message_of([&] { other.partial_fit(*narrow); }),
              "2 columns and 1 targets after a fit to 3 and one");
  });
  // What is refused leaves no trace: the first rows that are taken say which classes there are.
  auto flat = x.clone();
  flat.select(1, 1).fill_(4);
  with_table(2, {x, labels}, [&](const Table& table) {
    GaussianNB clean, disturbed({.var_smoothing = 0});
    const auto constant = make_table(table.group(), {flat, at::arange(flat.size(0)).remainder(2)});
    EXPECT_FALSE(test::message_of([&] { disturbed.fit(*constant); }, Fault::Data).empty());
    EXPECT_EQ(disturbed.classes().count(), 0);
    EXPECT_FALSE(test::message_of([&] { disturbed.partial_fit(table, {-3, 0}); }, Fault::Data).empty());
    disturbed.partial_fit(table);
    clean.fit(table);
    EXPECT_TRUE(at::equal(disturbed.theta(), clean.theta()));
    EXPECT_TRUE(at::equal(disturbed.class_prior(), clean.class_prior()));
  });
  x[8900][1] = std::numeric_limits<double>::infinity();
  with_table(2, {x, labels}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { GaussianNB().fit(table); }, Fault::Data),
              "row 8900, column 1 is infinite; clean the data");
  });
}

}  // namespace
}  // namespace lockstep::ml
