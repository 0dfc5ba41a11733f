#include "lockstep/ml/gram.h"

#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/zeros.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/kernels/add_gram.h"

namespace lockstep::ml {

at::Tensor first_mean(const Table& table) {
  const std::int64_t columns = table.columns(), targets = table.targets();
  at::Tensor shift = at::zeros({columns + targets}, at::kDouble);
  if (table.own_begin() == 0 && table.own_end() > 0) {
    at::Tensor scratch;
    const Block block = table.block(0, scratch);
    double* sum = shift.mutable_data_ptr<double>();
    const double share = 1 / static_cast<double>(block.rows);
    with_type_of(table, [&]<class T>(T) {
      for (std::int64_t i = 0; i < block.rows * columns; ++i) sum[i % columns] += share * block.x<T>()[i];
    });
    for (std::int64_t i = 0; i < block.rows * targets; ++i) sum[columns + i % targets] += share * block.targets[i];
  }
  table.group().all_reduce_(shift, comm::ReduceOp::Sum, {.name = "a first mean"}).wait();
  return shift;
}

Gram gram(const Table& table, int threads) {
  const GramShape shape{table.columns(), table.targets()};
  const at::Tensor shift = first_mean(table);
  std::vector<GramScratch> scratch(static_cast<std::size_t>(threads));
  const at::Tensor sums =
      fold(table, threads,
           {.name = "gram",
            .size = shape.size(),
            .leaf =
                [&](const Block& block, std::int64_t, double* partial, int thread) {
                  with_type_of(table, [&]<class T>(T) {
                    add_gram(block.x<T>(), block.targets, block.weights, block.rows, shape,
                             shift.const_data_ptr<double>(), partial, scratch[static_cast<std::size_t>(thread)]);
                  });
                }})
          .view({shape.stride(), shape.stride()});
  const std::int64_t last = shape.width() - 1;
  Gram result;
  result.weight = sums[last][last].item<double>();
  const at::Tensor lower = sums.slice(0, 0, last).slice(1, 0, last).tril();
  if (!std::isfinite(lower.sum().item<double>())) {
    check_finite(table);
    fail(Fault::Data, "products of the columns are too large for float64; scale the columns");
  }
  if (!(result.weight > 0)) fail(Fault::Data, "the weights of all rows are 0");
  const at::Tensor way = sums[last].slice(0, 0, last) / result.weight;  // from the shift to the mean
  result.mean = shift + way;
  result.centred = lower + lower.tril(-1).t() - result.weight * at::outer(way, way);
  return result;
}

}  // namespace lockstep::ml
