#include "lockstep/ml/moments.h"

#include <ATen/TensorOperators.h>

#include "lockstep/ml/fold.h"

namespace lockstep::ml {

Moments moments(const Table& table, int threads) {
  // Squares of what is moved by a row of the table lose no digits to a large mean.
  const std::int64_t columns = table.columns();
  const at::Tensor shift = rows_at(table, {0})[0].contiguous();
  const double* moved = shift.const_data_ptr<double>();
  const at::Tensor sums = fold(
      table, threads,
      {.name = "moments", .size = 2 * columns + 1, .leaf = [&](const Block& block, std::int64_t, double* sum, int) {
         double* squares = sum + columns;
         with_type_of(table, [&]<class T>(T) {
           const T* x = block.x<T>();
           for (std::int64_t row = 0; row < block.rows; ++row, x += columns) {
             const double weight = block.weight(row);
             sum[2 * columns] += weight;
             for (std::int64_t column = 0; column < columns; ++column) {
               const double value = x[column] - moved[column];
               sum[column] += weight * value;
               squares[column] += weight * value * value;
             }
           }
         });
       }});
  Moments result;
  result.weight = sums[2 * columns].item<double>();
  const at::Tensor mean = sums.slice(0, 0, columns) / result.weight;
  result.variance = (sums.slice(0, columns, 2 * columns) / result.weight - mean * mean).clamp_min(0);
  result.mean = mean + shift;
  return result;
}

double mean_variance(const Table& table, int threads) { return moments(table, threads).variance.mean().item<double>(); }

}  // namespace lockstep::ml
