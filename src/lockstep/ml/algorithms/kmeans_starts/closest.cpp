#include "lockstep/ml/algorithms/kmeans_starts/closest.h"

#include <algorithm>
#include <numeric>

#include <ATen/ops/zeros.h>

#include "lockstep/ml/algorithms/centroid_columns.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {

Closest::Closest(const Table& table, int threads)
    : table_(table), threads_(threads), distances_(static_cast<std::size_t>(table.own_rows()), 1.0) {
  sums_ = of_all_blocks(table_, threads_, 1, [this](const Block& block, std::int64_t, double* sum) {
    for (std::int64_t row = 0; row < block.rows; ++row) *sum += weighted(block, row);
  });
}

void Closest::add(const at::Tensor& centers) {
  const bool first = centers_ == 0;
  centers_ += centers.size(0);
  const double* values = centers.const_data_ptr<double>();
  with_type_of(table_, [&]<class T>(T) {
    const auto centroids = centroid_columns<T>(centers);
    sums_ = of_all_blocks(table_, threads_, 1, [&](const Block& block, std::int64_t number, double* sum) {
      std::vector<std::int32_t> labels(static_cast<std::size_t>(block.rows));
      std::vector<double> distances(static_cast<std::size_t>(block.rows));
      if (centers.size(0) > 1) assign(block.x<T>(), block.rows, centroids, nullptr, labels.data(), {});
      squared_distances(block.x<T>(), block.rows, table_.columns(), values, labels.data(), distances.data());
      double* closest = distances_.data() + table_.own_place(number);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        const double distance = distances[static_cast<std::size_t>(row)];
        closest[row] = first ? distance : std::min(closest[row], distance);
        *sum += weighted(block, row);
      }
    });
  });
}

std::vector<double> Closest::totals_with(const at::Tensor& candidates) const {
  const std::int64_t count = candidates.size(0), columns = table_.columns();
  const auto of_blocks =
      of_all_blocks(table_, threads_, count, [&](const Block& block, std::int64_t number, double* sums) {
        const double* closest = distances_.data() + table_.own_place(number);
        std::vector<double> distances(static_cast<std::size_t>(block.rows));
        for (std::int64_t candidate = 0; candidate < count; ++candidate) {
          with_type_of(table_, [&]<class T>(T) {
            squared_distances(block.x<T>(), block.rows, columns,
                              candidates.const_data_ptr<double>() + candidate * columns, nullptr, distances.data());
          });
          for (std::int64_t row = 0; row < block.rows; ++row) {
            const double weight = block.weight(row);
            sums[candidate] += weight * std::min(closest[row], distances[static_cast<std::size_t>(row)]);
          }
        }
      });
  std::vector<double> totals(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < of_blocks.size(); ++i) totals[i % totals.size()] += of_blocks[i];
  return totals;
}

double Closest::total() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

std::vector<std::int64_t> Closest::draw(Random& random, std::int64_t count) const {
  at::Tensor numbers = at::zeros({count}, at::kLong);
  const double all = total();
  at::Tensor scratch;
  for (std::int64_t i = 0; i < count; ++i) {
    double rest = random.uniform() * all;
    // Rounding may leave a little at the end: then it is the last block that has anything.
    std::int64_t chosen = 0;
    for (std::int64_t block = 0; block < table_.plan().blocks(); ++block) {
      const double sum = sums_[static_cast<std::size_t>(block)];
      if (sum <= 0) continue;
      chosen = block;
      if (rest < sum) break;
      rest -= sum;
    }
    if (chosen < table_.own_begin() || chosen >= table_.own_end()) continue;
    const Block block = table_.block(chosen, scratch);
    std::int64_t number = block.first;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const double here = weighted(block, row);
      if (here <= 0) continue;
      number = block.first + row;
      if (rest < here) break;
      rest -= here;
    }
    numbers.mutable_data_ptr<std::int64_t>()[i] = number;
  }
  table_.group().all_reduce_(numbers, comm::ReduceOp::Sum, {.name = "drawn rows"}).wait();
  const auto* values = numbers.const_data_ptr<std::int64_t>();
  return {values, values + count};
}

}  // namespace lockstep::ml
