// Every metric on a table that can be counted by hand.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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
  const auto metric = MetricRegistry::instance().at("metric", name)();
  return metric->figures(metric->sums(score()) + metric->sums(score()));
}

TEST(Metrics, Accuracy) { EXPECT_EQ(figures_of("accuracy"), (Figures{{"accuracy", 0.5}})); }
// There are only three classes.
TEST(Metrics, Top5) { EXPECT_EQ(figures_of("top5"), (Figures{{"top5", 1.0}})); }
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

}  // namespace
}  // namespace lockstep::train
