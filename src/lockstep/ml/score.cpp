#include "lockstep/ml/score.h"

#include <vector>

#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {

double r2_of(const Table& table, const at::Tensor& said, int threads) {
  check_targets(table, said.size(1));
  const std::int64_t targets = table.targets();
  // Of each target `add` adds something of a row to `size` sums.
  const auto sums_of = [&](std::int64_t size, const auto& add) {
    return fold(table, threads,
                {.name = "variance explained",
                 .size = targets * size,
                 .leaf = [&](const Block& block, std::int64_t number, double* sums, int) {
                   const double* values = said.const_data_ptr<double>() + table.own_place(number) * targets;
                   for (std::int64_t i = 0; i < block.rows * targets; ++i) {
                     const std::int64_t target = i % targets;
                     add(sums + target * size, target, block.weight(i / targets), block.targets[i], values[i]);
                   }
                 }});
  };
  const at::Tensor sums = sums_of(2, [](double* sum, std::int64_t, double weight, double target, double) {
    sum[0] += weight;
    sum[1] += weight * target;
  });
  std::vector<double> mean;
  for (std::int64_t target = 0; target < targets; ++target) {
    const double* sum = sums.const_data_ptr<double>() + 2 * target;
    check_weight_of_scored(sum[0]);
    mean.push_back(sum[1] / sum[0]);
  }
  const at::Tensor squares =
      sums_of(2, [&](double* sum, std::int64_t number, double weight, double target, double value) {
        const double way = target - mean[static_cast<std::size_t>(number)];
        sum[0] += weight * (target - value) * (target - value);
        sum[1] += weight * way * way;
      });
  double r2 = 0;
  for (std::int64_t target = 0; target < targets; ++target) {
    const double* sum = squares.const_data_ptr<double>() + 2 * target;
    // Of a constant target: all or nothing.
    r2 += sum[1] > 0 ? 1 - sum[0] / sum[1] : (sum[0] > 0 ? 0 : 1);
  }
  return r2 / static_cast<double>(targets);
}

}  // namespace lockstep::ml
