#include "lockstep/ml/class_moments.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/ml/column_sums.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/kernels/moment_sums.h"
#include "lockstep/ml/sorted_rows.h"

namespace lockstep::ml {
namespace {

/// Of a class, or of all rows, what is kept of a column.
struct Column {
  ColumnSums sums;
  double least;
};
constexpr std::int64_t kWords = sizeof(Column) / sizeof(double);

void combine(Column& left, const Column& right) {
  if (right.sums.weight == 0) return;
  if (left.sums.weight == 0) {
    left = right;
    return;
  }
  left.sums.add(right.sums);
  left.least = std::min(left.least, right.least);
}

/// Whether all values are finite, which is asked of rows that all count.
template <class T>
bool take(const Block& rows, std::int64_t columns, const double* weights, std::vector<double>& memory, Column* result) {
  memory.resize(static_cast<std::size_t>(7 * columns));
  double* own = memory.data();
  const MomentSums sums{own, own + columns, own + 2 * columns, own + 3 * columns, own + 4 * columns, own + 5 * columns};
  double* shift = own + 6 * columns;
  first_values<T>(rows, columns, shift);
  moment_sums(rows.x<T>(), weights, rows.rows, columns, shift, sums);
  bool finite = true;
  for (std::int64_t column = 0; column < columns; ++column) {
    finite = finite && (weights != nullptr || sums.count[column] == static_cast<double>(rows.rows));
    if (!(sums.weight[column] > 0)) continue;
    result[column] = {ColumnSums::about(shift[column], sums.weight[column], sums.sum[column], sums.squares[column]),
                      sums.least[column]};
  }
  return finite;
}

/// Classes and then all rows, [classes + 1, columns, kWords].
ClassMoments moments_of(const at::Tensor& words) {
  const std::int64_t classes = words.size(0) - 1;
  const auto word = [&](std::int64_t number) { return words.select(2, number); };
  const auto of_classes = [&](std::int64_t number) { return word(number).slice(0, 0, classes).contiguous(); };
  const auto of_rows = [&](std::int64_t number) { return word(number)[classes].contiguous(); };
  return {.weight = of_classes(0).select(1, 0).contiguous(),
          .sum = of_classes(1),
          .mean = of_classes(2),
          .squares = of_classes(3),
          .rows = of_rows(0),
          .rows_mean = of_rows(2),
          .rows_squares = of_rows(3),
          .least = of_rows(4)};
}

at::Tensor words_of(const ClassMoments& moments) {
  const at::Tensor weight = moments.weight.unsqueeze(1).expand_as(moments.sum);
  const at::Tensor of_classes =
      at::stack({weight, moments.sum, moments.mean, moments.squares, at::zeros_like(moments.sum)}, 2);
  const at::Tensor of_rows = at::stack(
      {moments.rows, at::zeros_like(moments.rows), moments.rows_mean, moments.rows_squares, moments.least}, 1);
  return at::cat({of_classes, of_rows.unsqueeze(0)}).contiguous();
}

}  // namespace

ClassMoments class_moments(const Table& table, const std::vector<std::int32_t>& numbers, std::int64_t classes,
                           int threads) {
  const std::int64_t columns = table.columns(), size = (classes + 1) * columns * kWords;
  struct OfThread {
    SortedRows sorted;
    std::vector<double> memory;
  };
  std::vector<OfThread> of_threads(static_cast<std::size_t>(threads));
  const at::Tensor folded = fold(table, threads,
                                 {.name = "moments of classes",
                                  .size = size + 1,  // at its end whether there are values that are not finite
                                  .leaf =
                                      [&](const Block& block, std::int64_t number, double* words, int thread) {
                                        auto& [sorted, memory] = of_threads[static_cast<std::size_t>(thread)];
                                        sorted.sort(table, block, numbers.data() + table.own_place(number), classes);
                                        auto* result = reinterpret_cast<Column*>(words);
                                        with_type_of(table, [&]<class T>(T) {
                                          if (!take<T>(block, columns, nullptr, memory, result + classes * columns))
                                            words[size] = 1;
                                          for (std::int64_t one = 0; one < classes; ++one) {
                                            const Block part = sorted.part(one);
                                            if (part.rows > 0)
                                              take<T>(part, columns, part.weights, memory, result + one * columns);
                                          }
                                        });
                                      },
                                  .combine =
                                      [&](double* left, const double* right) {
                                        auto* to = reinterpret_cast<Column*>(left);
                                        const auto* from = reinterpret_cast<const Column*>(right);
                                        for (std::int64_t i = 0; i < (classes + 1) * columns; ++i)
                                          combine(to[i], from[i]);
                                        left[size] += right[size];
                                      }});
  if (folded[size].item<double>() > 0) check_finite(table);
  return moments_of(folded.slice(0, 0, size).view({classes + 1, columns, kWords}));
}

ClassMoments both(const ClassMoments& one, const ClassMoments& other) {
  const at::Tensor words = words_of(one), more = words_of(other);
  auto* to = reinterpret_cast<Column*>(words.mutable_data_ptr<double>());
  const auto* from = reinterpret_cast<const Column*>(more.const_data_ptr<double>());
  for (std::int64_t i = 0; i < words.numel() / kWords; ++i) combine(to[i], from[i]);
  return moments_of(words);
}

}  // namespace lockstep::ml
