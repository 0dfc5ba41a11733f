#include "lockstep/ml/check_rows.h"

#include <functional>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/basic_statistics.h"
#include "lockstep/ml/algorithms/covariance.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/algorithms/pca.h"
#include "lockstep/ml/algorithms/svd.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

std::string refusal(const std::function<void()>& work) { return test::message_of(work, Fault::Usage); }

/// Tables of rows with three columns and a target of two classes, with four, and with two targets.
class CheckRows : public ::testing::Test {
 protected:
  void with_tables(const std::function<void(std::shared_ptr<Table>, const Table& wide, const Table& two)>& body) const {
    comm::testing::on_ranks({1}, [&](comm::Communicator& group) {
      body(make_table(group, {x_, y_}), *make_table(group, {wide_, y_}),
           *make_table(group, {x_, at::stack({y_, y_}, 1)}));
    });
  }
  /// Of what says something of rows, fitted to the first table: rows of other columns, and of none.
  void expect_columns(const std::function<void(const at::Tensor&)>& says) const {
    EXPECT_EQ(refusal([&] { says(wide_); }), "rows of 4 columns for a model of 3");
    EXPECT_EQ(refusal([&] { says(x_.slice(1, 0, 2)); }), "rows of 2 columns for a model of 3");
    EXPECT_EQ(refusal([&] { says(x_[0]); }), "rows are a matrix, a row for each sample");
    says(x_.to(at::kLong));
    says(x_.to(at::kFloat));
  }
  static void expect_table(const std::function<void()>& score) {
    EXPECT_EQ(refusal(score), "a table of 4 columns for a model of 3");
  }
  static void expect_unfitted(const std::vector<std::function<void()>>& all) {
    for (const auto& one : all) EXPECT_EQ(refusal(one), "the model is not fitted: call fit() first");
  }

  const at::Tensor x_ = testing::blobs(200, 3, 2).abs(), wide_ = testing::blobs(200, 4, 2).abs();
  const at::Tensor y_ = x_.select(1, 0).gt(x_.select(1, 0).median()).to(at::kDouble);
};

TEST_F(CheckRows, OfKMeans) {
  with_tables([&](auto table, const Table& wide, const Table&) {
    KMeans kmeans({.n_clusters = 2});
    expect_unfitted({[&] { kmeans.predict(x_); }, [&] { kmeans.transform(x_); }, [&] { kmeans.score(*table); },
                     [&] { kmeans.file(*table); }});
    kmeans.fit(*table);
    expect_columns([&](const at::Tensor& x) { kmeans.predict(x); });
    expect_columns([&](const at::Tensor& x) { kmeans.transform(x); });
    expect_table([&] { kmeans.score(wide); });
  });
}

TEST_F(CheckRows, OfNaiveBayes) {
  with_tables([&](auto table, const Table& wide, const Table& two) {
    GaussianNB gaussian;
    MultinomialNB multinomial;
    for (NaiveBayes* bayes : {static_cast<NaiveBayes*>(&gaussian), static_cast<NaiveBayes*>(&multinomial)}) {
      expect_unfitted({[&] { bayes->predict(x_); }, [&] { bayes->predict_proba(x_); }, [&] { bayes->score(*table); }});
    }
    gaussian.fit(*table);
    multinomial.fit(*table);
    for (NaiveBayes* bayes : {static_cast<NaiveBayes*>(&gaussian), static_cast<NaiveBayes*>(&multinomial)}) {
      expect_columns([&](const at::Tensor& x) { bayes->predict(x); });
      expect_columns([&](const at::Tensor& x) { bayes->predict_joint_log_proba(x); });
      expect_table([&] { bayes->score(wide); });
      EXPECT_EQ(refusal([&] { bayes->score(two); }), "a table of 2 targets for a model of 1");
    }
  });
}

TEST_F(CheckRows, OfLinearModels) {
  with_tables([&](auto table, const Table& wide, const Table& two) {
    LinearRegression gram({.solver = "gram"}), qr({.solver = "qr"});
    ElasticNet net;
    LogisticRegression logistic;
    expect_unfitted({[&] { gram.predict(x_); }, [&] { gram.score(*table); }, [&] { net.predict(x_); },
                     [&] { net.score(*table); }, [&] { logistic.predict(x_); }, [&] { logistic.score(*table); }});
    gram.fit(*table);
    qr.fit(*table);
    net.fit(*table);
    logistic.fit(*table);
    expect_columns([&](const at::Tensor& x) { gram.predict(x); });
    expect_columns([&](const at::Tensor& x) { net.predict(x); });
    expect_columns([&](const at::Tensor& x) { logistic.predict_proba(x); });
    for (const auto* regression : {&gram, &qr}) {
      expect_table([&] { regression->score(wide); });
      EXPECT_EQ(refusal([&] { regression->score(two); }), "a table of 2 targets for a model of 1");
    }
    expect_table([&] { net.score(wide); });
    expect_table([&] { logistic.score(wide); });
    EXPECT_EQ(refusal([&] { logistic.score(two); }), "a table of 2 targets for a model of 1");
  });
}

TEST_F(CheckRows, OfComponentsAndCovariance) {
  with_tables([&](auto table, const Table& wide, const Table&) {
    PCA pca({.n_components = 2});
    TruncatedSVD truncated;
    SVD svd;
    EmpiricalCovariance covariance;
    BasicStatistics statistics;
    expect_unfitted({[&] { pca.transform(x_); }, [&] { pca.inverse_transform(x_); }, [&] { pca.score(*table); },
                     [&] { truncated.transform(x_); }, [&] { truncated.inverse_transform(x_); },
                     [&] { svd.transform(x_); }, [&] { covariance.mahalanobis(x_); }, [&] { covariance.precision(); },
                     [&] { covariance.score(*table); }, [&] { statistics.mean(); }});
    pca.fit(*table);
    truncated.fit(*table);
    svd.fit(*table);
    covariance.fit(*table);
    expect_columns([&](const at::Tensor& x) { pca.transform(x); });
    expect_columns([&](const at::Tensor& x) { truncated.transform(x); });
    expect_columns([&](const at::Tensor& x) { svd.transform(x); });
    expect_columns([&](const at::Tensor& x) { covariance.mahalanobis(x); });
    expect_table([&] { pca.score(wide); });
    expect_table([&] { covariance.score(wide); });
    EXPECT_EQ(refusal([&] { pca.inverse_transform(x_); }), "rows of 3 columns for a model of 2");
  });
}

TEST_F(CheckRows, OfNeighbors) {
  with_tables([&](auto table, const Table&, const Table& two) {
    KNeighborsClassifier classifier;
    KNeighborsRegressor regressor;
    expect_unfitted({[&] { classifier.predict(x_); }, [&] { regressor.predict(x_); }, [&] { classifier.file(); }});
    classifier.fit(table);
    regressor.fit(table);
    EXPECT_EQ(refusal([&] { classifier.score(two); }), "a table of 2 targets for a model of 1");
    EXPECT_EQ(refusal([&] { regressor.score(two); }), "a table of 2 targets for a model of 1");
  });
}

}  // namespace
}  // namespace lockstep::ml
