// Every metric on a table that can be counted by hand.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/train/metric.h"

namespace lockstep::train {
namespace {

/// Four samples of three classes: right, right, 2 taken for 0, 1 taken for 2.
Score score() {
  const at::Tensor outputs = at::tensor({5.0, 1.0, 0.0,  //
                                         0.0, 3.0, 1.0,  //
                                         4.0, 0.0, 2.0,  //
                                         0.0, 1.0, 2.0})
                                 .view({4, 3});
  return {at::tensor(2.0), 4, outputs, at::tensor({0, 1, 2, 1}, at::kLong)};
}

/// As over two batches.
Figures figures_of(const std::string& name) {
  const auto metric = make_metric(name);
  return metric->figures(metric->sums(score()) + metric->sums(score()));
}

TEST(Metrics, Accuracy) { EXPECT_EQ(figures_of("accuracy"), (Figures{{"accuracy", 0.5}})); }
TEST(Metrics, TopK) {
  EXPECT_EQ(figures_of("top1"), (Figures{{"top1", 0.5}}));
  EXPECT_EQ(figures_of("top2"), (Figures{{"top2", 1.0}}));
  EXPECT_EQ(figures_of("top3"), (Figures{{"top3", 1.0}}));
  EXPECT_NO_THROW(make_metric("top3", 3));
  for (const char* wrong : {"top4", "top0", "top", "topK", "top-1", "top99999999999999999999", "accuracy1", "f2"}) {
    EXPECT_THROW(make_metric(wrong, 3), Error) << wrong;
  }
}
TEST(Metrics, Perplexity) { EXPECT_NEAR(figures_of("perplexity")[0].second, std::exp(0.5), 1e-12); }

TEST(Metrics, Confusion) {
  const auto figures = figures_of("confusion");
  ASSERT_EQ(figures.size(), 9U);
  for (const auto& [name, count] : figures) {
    const bool seen =
        name == "confusion/0/0" || name == "confusion/1/1" || name == "confusion/2/0" || name == "confusion/1/2";
    EXPECT_EQ(count, seen ? 2 : 0) << name;
  }
}

// Of class 0: 2·1 / (2 + 1), of class 1: 2·1 / (1 + 2), of class 2: 0.
TEST(Metrics, F1) { EXPECT_NEAR(figures_of("f1")[0].second, (2.0 / 3 + 2.0 / 3 + 0) / 3, 1e-12); }

// As sklearn.metrics.f1_score([0, 1, 1], [0, 1, 0], average="macro") has it: of class 2 there is nothing to say.
TEST(Metrics, F1IsOfClassesThatOccur) {
  const at::Tensor outputs = at::tensor({5.0, 1.0, 0.0, 0.0, 3.0, 1.0, 4.0, 0.0, 2.0}).view({3, 3});
  const auto metric = make_metric("f1");
  const auto figures = metric->figures(metric->sums({at::tensor(1.0), 3, outputs, at::tensor({0, 1, 1}, at::kLong)}));
  EXPECT_NEAR(figures[0].second, (2.0 / 3 + 2.0 / 3) / 2, 1e-12);
}

}  // namespace
}  // namespace lockstep::train
