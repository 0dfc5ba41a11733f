// Of every algorithm: a model in its file is the model that was written, also where the table had no names.
#include "lockstep/ml/model_file.h"

#include <limits>
#include <type_traits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/algorithms/covariance.h"
#include "lockstep/ml/algorithms/elastic_net.h"
#include "lockstep/ml/algorithms/gaussian_nb.h"
#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/linear_regression.h"
#include "lockstep/ml/algorithms/logistic_regression.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "lockstep/ml/algorithms/multinomial_nb.h"
#include "lockstep/ml/algorithms/neighbors.h"
#include "lockstep/ml/algorithms/pca.h"
#include "lockstep/ml/algorithms/svd.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using Names = std::vector<std::string>;

at::Tensor x() { return testing::blobs(500, 3, 2).abs(); }

/// `body` with a table of classes on two ranks, and with one of the same rows without names.
void with_tables(const std::function<void(const std::shared_ptr<const Table>& table, const Names& columns)>& body) {
  const at::Tensor labels = x().select(1, 0).gt(2).to(at::kDouble);
  for (const Names& names : {Names{"a", "b", "c"}, Names{}}) {
    comm::testing::on_ranks({2}, [&](comm::Communicator& group) {
      const auto own = [&](const at::Tensor& whole) { return testing::part_of(whole, group.rank(), group.size()); };
      body(make_table(group, {.x = own(x()), .targets = own(labels), .names = names}),
           names.empty() ? Names{"values[0]", "values[1]", "values[2]"} : names);
    });
  }
}

/// As another program finds it.
ModelFile written_and_read(const ModelFile& file) {
  const test::TemporaryFolder folder;
  write_model(folder / "model", file);
  return read_model(folder / "model");
}

at::Tensor said_by(const ModelFile& file) {
  return PredictorRegistry::instance().at("algorithm", file.algorithm)(file)->predict(x());
}

void expect_same(const ModelFile& read, const ModelFile& written) {
  EXPECT_EQ(read.algorithm, written.algorithm);
  EXPECT_EQ(read.parameters, written.parameters);
  EXPECT_EQ(read.columns, written.columns);
  EXPECT_EQ(read.preparation.json(), written.preparation.json());
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const auto& [name, tensor] : written.tensors) EXPECT_TRUE(at::equal(read[name], tensor)) << name;
}

/// `say` of the fitted one is what the file's predictor says, and one that is read writes the same file.
template <class Estimator, class Say>
void expect_kept(const Estimator& estimator, const Say& say) {
  with_tables([&](const std::shared_ptr<const Table>& table, const Names& columns) {
    Estimator own = estimator;
    own.fit(*table);
    const ModelFile file = own.file(*table);
    EXPECT_EQ(file.columns, columns);
    const ModelFile read = written_and_read(file);
    expect_same(read, file);
    EXPECT_TRUE(at::equal(said_by(read), say(own)));
    if constexpr (std::is_same_v<decltype(Estimator::from(read)), Estimator>) {
      expect_same(Estimator::from(read).file(*table), file);
    }
  });
}

template <class Estimator>
void expect_predictor_kept(const Estimator& estimator) {
  expect_kept(estimator, [](const Estimator& fitted) { return fitted.predict(x()); });
}

template <class Estimator>
void expect_transform_kept(const Estimator& estimator) {
  expect_kept(estimator, [](const Estimator& fitted) { return fitted.transform(x()); });
}

TEST(ModelFile, KeepsLinearModels) {
  const auto say = [](const auto& fitted) { return fitted.model().predict(x()); };
  expect_kept(LinearRegression({.alpha = 0.5, .fit_intercept = false}), say);
  expect_kept(ElasticNet({.alpha = 0.01, .l1_ratio = 0.3, .max_iter = 5000, .tol = 1e-5, .positive = true}), say);
}

TEST(ModelFile, KeepsClassifiers) {
  expect_predictor_kept(LogisticRegression({.C = 3, .tol = 1e-5, .max_iter = 200}));
  expect_predictor_kept(LogisticRegression({.C = std::numeric_limits<double>::infinity(), .max_iter = 20}));
  expect_predictor_kept(GaussianNB({.var_smoothing = 1e-3}));
  expect_predictor_kept(MultinomialNB({.alpha = 0.5, .fit_prior = false}));
}

TEST(ModelFile, KeepsCentroids) {
  expect_predictor_kept(KMeans({.n_clusters = 3}));
  expect_predictor_kept(MiniBatchKMeans({.n_clusters = 3}));
}

TEST(ModelFile, KeepsWhatTransforms) {
  expect_transform_kept(PCA({.n_components = 2, .whiten = true, .random_state = 7}));
  expect_transform_kept(TruncatedSVD({.n_components = 1, .n_iter = 3, .n_oversamples = 4, .random_state = 7}));
  expect_transform_kept(SVD());
  expect_kept(EmpiricalCovariance({.assume_centered = true, .ddof = 1}),
              [](const EmpiricalCovariance& fitted) { return fitted.mahalanobis(x()); });
}

template <class Estimator>
void expect_rows_kept() {
  with_tables([](const std::shared_ptr<const Table>& table, const Names& columns) {
    Estimator knn({.n_neighbors = 3, .weights = "distance"});
    knn.fit(table);
    const ModelFile file = knn.file();
    const at::Tensor said = knn.predict(x());
    if (table->group().rank() != 0) return;
    EXPECT_EQ(file.columns, columns);
    const ModelFile read = written_and_read(file);
    EXPECT_TRUE(at::equal(said_by(read), said));
    expect_same(Estimator::from(read).file(), file);
  });
}

TEST(ModelFile, KeepsNeighbours) {
  expect_rows_kept<KNeighborsClassifier>();
  expect_rows_kept<KNeighborsRegressor>();
}

TEST(ModelFile, RefusesParametersThatCannotBe) {
  with_tables([](const std::shared_ptr<const Table>& table, const Names&) {
    LinearRegression regression;
    regression.fit(*table);
    ModelFile file = regression.file(*table);
    file.parameters["targets"] = 5;
    EXPECT_TRUE(test::message_of([&] { (void)said_by(file); }, Fault::Data)
                    .starts_with("the model's 'targets' cannot be what it says"));
  });
}

}  // namespace
}  // namespace lockstep::ml
