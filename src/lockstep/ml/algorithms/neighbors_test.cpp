#include "lockstep/ml/algorithms/neighbors.h"

#include <limits>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::part_of;

/// `body` with the rows of one of several ranks, as a table that an estimator may keep.
void with_shared_table(int ranks, const TableRows& rows,
                       const std::function<void(const std::shared_ptr<const Table>&)>& body) {
  comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
    const auto own = [&](const at::Tensor& whole) { return part_of(whole, group.rank(), ranks); };
    body(make_table(
        group, {own(rows.x), own(rows.targets), own(rows.weights), rows.names, rows.target_names, rows.value_names}));
  });
}

/// The order of rows by distance from each query, of equally far ones by number.
at::Tensor order_of(const at::Tensor& x, const at::Tensor& queries) {
  const auto squared = (queries.unsqueeze(1) - x.unsqueeze(0)).square().sum(2);
  return std::get<1>(at::sort(squared, /*stable=*/std::optional(true), 1));
}

TEST(NearestNeighbors, AreTheNearestOfAllRanks) {
  const auto x = blobs(9001, 4, 3), queries = blobs(301, 4, 3, 2);
  const auto expected = order_of(x, queries).slice(1, 0, 6);
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_shared_table(ranks, {x}, [&, threads = threads](const std::shared_ptr<const Table>& table) {
      NearestNeighbors nearest({.n_neighbors = 6, .threads = threads});
      nearest.fit(table);
      const int rank = table->group().rank(), size = table->group().size();
      const auto own = part_of(queries, rank, size);
      const auto found = nearest.kneighbors(own);
      EXPECT_TRUE(at::equal(found.indices, part_of(expected, rank, size))) << size << " ranks";
      const auto way = (own.unsqueeze(1) - x.index({found.indices})).square().sum(2).sqrt();
      EXPECT_TRUE(at::allclose(found.distances, way, 1e-14, 0));
    });
  }
}

TEST(NearestNeighbors, TakeManyQueriesInRounds) {
  // More than a round of all ranks, and rank 1 has none of its own.
  const auto x = blobs(500, 2, 3), queries = blobs(20'000, 2, 3, 2);
  const auto expected = order_of(x, queries).slice(1, 0, 1);
  with_shared_table(3, {x}, [&](const std::shared_ptr<const Table>& table) {
    NearestNeighbors nearest({.n_neighbors = 1});
    nearest.fit(table);
    const int rank = table->group().rank();
    const std::int64_t begin = rank == 0 ? 0 : 15'000, end = rank == 2 ? 20'000 : 15'000;
    const auto found = nearest.kneighbors(queries.slice(0, begin, end));
    EXPECT_TRUE(at::equal(found.indices, expected.slice(0, begin, end)));
  });
}

TEST(KNeighborsClassifier, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(9001, 3, 4), queries = blobs(200, 3, 4, 5);
  const auto labels = x.select(1, 0).round().remainder(3);
  for (const auto type : {at::kDouble, at::kFloat}) {
    for (const char* weights : {"uniform", "distance"}) {
      at::Tensor first_classes, first_shares, first_values;
      double first_score = 0;
      for (const auto& [ranks, threads] : kRanksAndThreads) {
        with_shared_table(ranks, {x.to(type), labels}, [&, threads = threads](const auto& table) {
          const NeighborsOptions options{.weights = weights, .threads = threads};
          const int rank = table->group().rank(), size = table->group().size();
          const auto own = part_of(queries, rank, size);
          KNeighborsClassifier classifier(options);
          classifier.fit(table);
          KNeighborsRegressor regressor(options);
          regressor.fit(table);
          const auto classes = classifier.predict(own), shares = classifier.predict_proba(own);
          const auto values = regressor.predict(own);
          const double score = regressor.score(*table);
          if (!first_classes.defined()) {  // one rank alone comes first
            first_classes = classes, first_shares = shares, first_values = values, first_score = score;
          }
          EXPECT_TRUE(at::equal(classes, part_of(first_classes, rank, size)));
          EXPECT_TRUE(at::equal(shares, part_of(first_shares, rank, size)));
          EXPECT_TRUE(at::equal(values, part_of(first_values, rank, size)));
          EXPECT_EQ(score, first_score);
        });
      }
    }
  }
}

TEST(KNeighborsClassifier, VotesAsScikitLearn) {
  const auto x = at::tensor({0.0, 1.0, -2.0, 3.0, 10.0}, at::kDouble).view({-1, 1});
  const auto labels = at::tensor({7.0, 2.0, 2.0, 7.0, 9.0}, at::kDouble);
  const auto queries = at::tensor({0.0, 0.5, 100.0}, at::kDouble).view({-1, 1});
  with_shared_table(1, {x, labels}, [&](const auto& table) {
    KNeighborsClassifier uniform({.n_neighbors = 4});
    uniform.fit(table);
    // Of two votes each the lower class, twice.
    EXPECT_TRUE(at::equal(uniform.predict(queries), at::tensor({2, 2, 7}, at::kLong)));
    EXPECT_TRUE(at::equal(uniform.predict_proba(queries)[0], at::tensor({0.5, 0.5, 0.0}, at::kDouble)));
    KNeighborsClassifier distance({.n_neighbors = 3, .weights = "distance"});
    distance.fit(table);
    // On the first row; 1/0.5, 1/0.5 and, the lower row number of two, 1/2.5; 1/90, 1/97 and 1/99.
    EXPECT_TRUE(at::equal(distance.predict(queries), at::tensor({7, 2, 9}, at::kLong)));
    EXPECT_TRUE(at::equal(distance.predict_proba(queries)[0], at::tensor({0.0, 1.0, 0.0}, at::kDouble)));
    const double third = distance.predict_proba(queries)[2][0].template item<double>();
    EXPECT_NEAR(third, 1.0 / 99 / (1.0 / 99 + 1.0 / 97 + 1.0 / 90), 1e-14);
  });
}

TEST(KNeighborsClassifier, MeasuresItsAccuracy) {
  const auto x = blobs(900, 2, 3);
  const auto labels = (x.select(1, 0) > 0).to(at::kDouble);
  const auto weights = at::arange(900, at::kDouble).remainder(3);
  const auto votes = labels.index({order_of(x, x).slice(1, 0, 7)}).sum(1);
  const auto right = ((votes > 3.5).to(at::kDouble) == labels).to(at::kDouble);
  with_shared_table(3, {x, labels, weights}, [&](const auto& table) {
    KNeighborsClassifier knn({.n_neighbors = 7});
    knn.fit(table);
    EXPECT_NEAR(knn.score(*table), ((right * weights).sum() / weights.sum()).item<double>(), 1e-14);
  });
}

TEST(KNeighborsRegressor, IsTheMeanOfTheNeighbours) {
  const auto x = blobs(800, 3, 2), queries = blobs(50, 3, 2, 8);
  const auto y = at::stack({x.select(1, 0).sin(), x.select(1, 1) * 3}, 1);
  const auto nearest = order_of(x, queries).slice(1, 0, 5);
  with_shared_table(2, {x, y}, [&](const auto& table) {
    KNeighborsRegressor knn;
    knn.fit(table);
    const auto mean = y.index({nearest}).mean(1);
    EXPECT_TRUE(at::allclose(knn.predict(queries), mean, 1e-13, 1e-13));
    KNeighborsRegressor nearer({.weights = "distance"});
    nearer.fit(table);
    const auto weights = 1 / (queries.unsqueeze(1) - x.index({nearest})).norm(2, 2).unsqueeze(2);
    EXPECT_TRUE(at::allclose(nearer.predict(queries), (y.index({nearest}) * weights).sum(1) / weights.sum(1), 1e-12));
    const auto of_rows = y.index({order_of(x, x).slice(1, 0, 5)}).mean(1);
    const auto r2 = 1 - (y - of_rows).square().sum(0) / (y - y.mean(0)).square().sum(0);
    EXPECT_NEAR(knn.score(*table), r2.mean().item<double>(), 1e-12);
  });
}

TEST(KNeighborsClassifier, IsReadFromItsFile) {
  const test::TemporaryFolder folder;
  const auto x = blobs(9000, 3, 2), queries = blobs(100, 3, 2, 4), labels = (x.select(1, 0) > 0).to(at::kDouble);
  with_shared_table(2, {x, labels, {}, {"a", "b", "c"}, {"side"}, {"left", "right"}}, [&](const auto& table) {
    KNeighborsClassifier knn({.n_neighbors = 3, .weights = "distance"});
    knn.fit(table);
    KNeighborsRegressor mean;
    mean.fit(table);
    const auto classes = knn.file(), values = mean.file();
    const auto said = knn.predict(queries), told = mean.predict(queries);
    if (table->group().rank() != 0) return;
    write_model(folder / "classes", classes);
    write_model(folder / "values", values);
    auto strange = classes;
    for (auto& [name, tensor] : strange.tensors) {
      if (name == "targets") tensor = tensor + 2;
    }
    EXPECT_TRUE(
        test::message_of([&] { KNeighborsClassifier::from(strange); }, Fault::Data).ends_with("which it has not"));
    const auto file = read_model(folder / "classes");
    EXPECT_EQ(file.columns, (std::vector<std::string>{"a", "b", "c"}));
    const auto read = PredictorRegistry::instance().at("algorithm", file.algorithm)(file);
    EXPECT_TRUE(at::equal(read->predict(queries), said));
    EXPECT_EQ(read->outputs(), std::vector<std::string>{"side"});
    EXPECT_EQ(read->value_names(), (std::vector<std::string>{"left", "right"}));
    const auto other = read_model(folder / "values");
    EXPECT_TRUE(
        at::equal(PredictorRegistry::instance().at("algorithm", other.algorithm)(other)->predict(queries), told));
  });
}

TEST(NearestNeighbors, RefuseWhatMakesNoSense) {
  const auto refusal = [](const NeighborsOptions& options) {
    return test::message_of([&] { NearestNeighbors nearest(options); });
  };
  EXPECT_EQ(refusal({.n_neighbors = 0}), "n_neighbors = 0: it is from 1 on");
  EXPECT_EQ(refusal({.weights = "near"}), "weights = \"near\": it is \"uniform\" or \"distance\"");
  auto x = blobs(100, 3, 2);
  with_shared_table(3, {x}, [&](const auto& table) {
    const auto message = [&](const at::Tensor& queries, Fault fault) {
      NearestNeighbors nearest;
      nearest.fit(table);
      return test::message_of([&] { (void)nearest.kneighbors(queries); }, fault);
    };
    EXPECT_EQ(test::message_of([&] { NearestNeighbors({.n_neighbors = 101}).fit(table); }),
              "n_neighbors = 101 of 100 rows; use fewer");
    EXPECT_EQ(test::message_of([&] { KNeighborsRegressor().fit(table); }), "regression needs a target");
    EXPECT_EQ(test::message_of([&] { KNeighborsClassifier().fit(table); }), "a classifier needs one target, not 0");
    const bool last = table->group().rank() == 2;
    EXPECT_EQ(message(at::zeros({5, last ? 4 : 3}, at::kDouble), Fault::Usage),
              "rank 2: queries of 4 columns, and rows of 3");
    auto queries = at::zeros({5, 3}, at::kDouble);
    if (last) queries[4][1] = std::numeric_limits<double>::infinity();
    EXPECT_EQ(message(queries, Fault::Data), "rank 2: query 4, column 1 is infinite; clean the data");
    if (last) queries[4][1] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(message(queries, Fault::Data),
              "rank 2: query 4, column 1 is no finite number; clean the data, or use --missing mean");
  });
  // On all ranks, though only one asks for it.
  with_shared_table(2, {x}, [&](const auto& table) {
    NearestNeighbors nearest;
    nearest.fit(table);
    const double far = table->group().rank() == 0 ? 1e200 : 0;
    EXPECT_EQ(test::message_of([&] { (void)nearest.kneighbors(at::full({5, 3}, far, at::kDouble)); }, Fault::Data),
              "squares of the values are too large; scale the columns");
  });
  x[70][2] = std::numeric_limits<double>::quiet_NaN();
  with_shared_table(2, {x}, [&](const auto& table) {
    EXPECT_EQ(test::message_of([&] { NearestNeighbors().fit(table); }, Fault::Data),
              "row 70, column 2 is no finite number; clean the data, or use --missing mean or drop");
  });
}

}  // namespace
}  // namespace lockstep::ml
