#include "lockstep/ml/moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "lockstep/core/one_thread.h"
#include "lockstep/ml/column_sums.h"
#include "lockstep/ml/kernels/moment_sums.h"

namespace lockstep::ml {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What is kept of a column: the columns of what is folded, one behind the other. Last comes the weight of all rows.
struct Column {
  double count, missing, infinite;
  ColumnSums sums;
  double min, max;
};
constexpr std::int64_t kWords = sizeof(Column) / sizeof(double);

void combine(Column& left, const Column& right) {
  left.missing += right.missing;
  left.infinite += right.infinite;
  if (right.count == 0) return;
  if (left.count == 0) {
    const double missing = left.missing, infinite = left.infinite;
    left = right;
    left.missing = missing;
    left.infinite = infinite;
    return;
  }
  left.count += right.count;
  left.sums.add(right.sums);
  left.min = std::min(left.min, right.min);
  left.max = std::max(left.max, right.max);
}

void combine_all(double* left, const double* right, std::int64_t columns) {
  auto* to = reinterpret_cast<Column*>(left);
  const auto* from = reinterpret_cast<const Column*>(right);
  for (std::int64_t column = 0; column < columns; ++column) combine(to[column], from[column]);
  left[columns * kWords] += right[columns * kWords];
}

/// Values that are not finite, of columns that have some.
template <class T>
void count_others(const Block& block, std::int64_t columns, Column* of) {
  for (std::int64_t column = 0; column < columns; ++column) {
    if (of[column].count == static_cast<double>(block.rows)) continue;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      if (!(block.weight(row) > 0)) continue;
      const T value = block.x<T>()[row * columns + column];
      of[column].missing += std::isnan(value) ? 1 : 0;
      of[column].infinite += std::isinf(value) ? 1 : 0;
    }
  }
}

template <class T>
void add_block(const Block& block, std::int64_t columns, double* result) {
  std::vector<double> memory(static_cast<std::size_t>(7 * columns));
  double* own = memory.data();
  double* shift = own + 6 * columns;
  first_values<T>(block, columns, shift);
  const MomentSums sums{own, own + columns, own + 2 * columns, own + 3 * columns, own + 4 * columns, own + 5 * columns};
  moment_sums(block.x<T>(), block.weights, block.rows, columns, shift, sums);
  auto* of = reinterpret_cast<Column*>(result);
  for (std::int64_t column = 0; column < columns; ++column) {
    of[column].count = sums.count[column];
    if (sums.count[column] == 0) continue;
    of[column].sums = ColumnSums::about(shift[column], sums.weight[column], sums.sum[column], sums.squares[column]);
    of[column].min = sums.least[column];
    of[column].max = sums.greatest[column];
  }
  count_others<T>(block, columns, of);
  for (std::int64_t row = 0; row < block.rows; ++row) result[columns * kWords] += block.weight(row);
}

at::Tensor folded_of(const Moments& moments) {
  const std::int64_t columns = moments.count.numel();
  const at::Tensor folded = at::empty({columns * kWords + 1}, at::kDouble);
  const at::Tensor of = folded.slice(0, 0, columns * kWords).view({columns, kWords});
  std::int64_t place = 0;
  for (const at::Tensor* one : {&moments.count, &moments.missing, &moments.infinite, &moments.weights, &moments.sum,
                                &moments.mean, &moments.squares, &moments.min, &moments.max}) {
    of.select(1, place++).copy_(*one);
  }
  folded[columns * kWords].fill_(moments.weight);
  return folded;
}

}  // namespace

at::Tensor Moments::variance(double ddof) const {
  const at::Tensor left = weights - ddof;
  return at::where(left.gt(0), squares / left, at::full({}, std::numeric_limits<double>::quiet_NaN(), at::kDouble));
}

Fold moments_fold(const Table& table) {
  const std::int64_t columns = table.columns();
  return {.name = "moments",
          .size = columns * kWords + 1,
          .leaf = [&table, columns](
                      const Block& block, std::int64_t, double* result,
                      int) { with_type_of(table, [&]<class T>(T) { add_block<T>(block, columns, result); }); },
          .combine = [columns](double* left, const double* right) { combine_all(left, right, columns); }};
}

Moments moments_of(const at::Tensor& folded) {
  const std::int64_t columns = folded.numel() / kWords;
  const at::Tensor of = folded.slice(0, 0, columns * kWords).view({columns, kWords}).t().contiguous();
  const at::Tensor none = of[0].eq(0);
  const auto known = [&](std::int64_t place) { return of[place].masked_fill(none, kNone); };
  return {.weight = folded[columns * kWords].item<double>(),
          .count = of[0],
          .missing = of[1],
          .infinite = of[2],
          .weights = of[3],
          .sum = known(4),
          .mean = known(5),
          .squares = known(6),
          .min = known(7),
          .max = known(8)};
}

Moments both(const Moments& one, const Moments& other) {
  const at::Tensor left = folded_of(one), right = folded_of(other);
  combine_all(left.mutable_data_ptr<double>(), right.const_data_ptr<double>(), one.count.numel());
  return moments_of(left);
}

Moments moments(const Table& table, int threads) { return moments_of(fold(table, threads, moments_fold(table))); }

Moments finite_moments(const Table& table, int threads) {
  Moments result = moments(table, threads);
  if ((result.missing + result.infinite).sum().item<double>() > 0) check_finite(table);
  return result;
}

double mean_variance(const Table& table, int threads) {
  Fold once = moments_fold(table);
  once.leaf = [weighted = once.leaf](const Block& block, std::int64_t number, double* result, int thread) {
    Block rows = block;
    rows.weights = nullptr;
    weighted(rows, number, result, thread);
  };
  const at::Tensor variance = moments_of(fold(table, threads, once)).variance();
  const OneThread same_bits;
  return variance.mean().item<double>();
}

}  // namespace lockstep::ml
