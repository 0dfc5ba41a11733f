#include "lockstep/ml/tsqr.h"

#include <cmath>
#include <limits>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

/// Rows whose singular values fall from 1 to 1 / condition.
at::Tensor ill_conditioned(std::int64_t rows, std::int64_t columns, double condition) {
  const auto left = std::get<0>(at::linalg_qr(blobs(rows, columns, 1, 3)));
  const auto right = std::get<0>(at::linalg_qr(blobs(columns, columns, 1, 4)));
  const auto values = at::logspace(0, -std::log10(condition), columns, 10, at::kDouble);
  return (left * values).mm(right.t());
}

TEST(Tsqr, IsTheTriangularFactorOfAllRows) {
  const auto x = blobs(20'000, 12, 3, 1, 5), weights = at::arange(20'000, at::kDouble).sin() + 1;
  const auto shift = x.mean(0);
  for (const bool weighted : {false, true}) {
    const auto rows = weighted ? (x - shift) * weights.sqrt().unsqueeze(1) : x - shift;
    with_table(3, {x, {}, weighted ? weights : at::Tensor()}, [&](const Table& table) {
      const auto r = triangular_factor(table, 2, shift);
      EXPECT_TRUE(at::equal(r, r.triu()));
      EXPECT_GE(r.diagonal().min().item<double>(), 0);
      EXPECT_TRUE(at::allclose(r.t().mm(r), rows.t().mm(rows), 1e-11, 1e-7));
    });
  }
}

TEST(Tsqr, OfFewerRowsThanColumnsIsFilledWithZeros) {
  const auto x = blobs(5, 8, 2);
  with_table(2, {x}, [&](const Table& table) {
    const auto r = triangular_factor(table, 1);
    EXPECT_TRUE(at::allclose(r.t().mm(r), x.t().mm(x), 1e-11, 1e-11));
    EXPECT_EQ(r.slice(0, 5).abs().max().item<double>(), 0);
  });
}

TEST(Tsqr, KeepsTheDigitsThatProductsLose) {
  const auto x = ill_conditioned(50'000, 20, 1e12);
  const auto exact = at::linalg_svdvals(x);
  with_table(3, {x}, [&](const Table& table) {
    const auto by_factor = at::linalg_svdvals(triangular_factor(table, 1));
    EXPECT_LT((by_factor - exact).abs().max().item<double>(), 1e-14);
    EXPECT_LT((by_factor[19] / exact[19] - 1).abs().item<double>(), 1e-3);
    const auto products = gram(table, 1);
    const auto all = products.centred + products.weight * at::outer(products.mean, products.mean);
    const auto by_products = at::linalg_eigvalsh(all).abs().sqrt();
    EXPECT_GT((by_products[0] / exact[19] - 1).abs().item<double>(), 10);  // what a factor is for
  });
}

TEST(Tsqr, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(30'001, 21, 3), shift = x.mean(0);
  for (const auto type : {at::kDouble, at::kFloat}) {
    at::Tensor first;
    for (const auto& [ranks, threads] : kRanksAndThreads) {
      with_table(ranks, {x.to(type)}, [&, threads = threads](const Table& table) {
        const auto r = triangular_factor(table, threads, shift);
        if (table.group().rank() == 0 && !first.defined()) first = r;
        EXPECT_TRUE(at::equal(r, first)) << table.group().size() << " ranks, " << threads << " threads";
      });
    }
  }
}

TEST(Tsqr, HasTheSameBitsWhereverRowsLie) {
  const auto x = blobs(9000, 13, 2);
  at::Tensor first;
  for (const std::int64_t off : {0, 1, 3, 4}) {  // doubles from a boundary of 64 bytes
    const auto moved = at::empty({x.numel() + off}, at::kDouble).slice(0, off).view_as(x).copy_(x);
    for (const int torch_threads : {1, 2}) {
      const int before = at::get_num_threads();
      at::set_num_threads(torch_threads);
      with_table(1, {moved}, [&](const Table& table) {
        const auto r = triangular_factor(table, 2);
        if (!first.defined()) first = r;
        EXPECT_TRUE(at::equal(r, first)) << off << " doubles off, " << torch_threads << " threads of torch";
      });
      at::set_num_threads(before);
    }
  }
}

TEST(Tsqr, NamesWhatIsNotFinite) {
  auto x = blobs(10'000, 3, 2);
  x[9999][1] = std::numeric_limits<double>::quiet_NaN();
  with_table(2, {x}, [](const Table& table) {
    EXPECT_EQ(test::message_of([&] { triangular_factor(table, 1); }, Fault::Data),
              "row 9999, column 1 is no finite number; clean the data, or use --missing mean or drop");
  });
}

}  // namespace
}  // namespace lockstep::ml
