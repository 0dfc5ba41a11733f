// lockstep/ml/algorithms/kmeans_starts/closest.h
//
// How far each row of this rank is from the nearest of the centroids chosen so far, and
// the draw of a row by that.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/core/random.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

class Closest {
 public:
  Closest(const Table& table, int threads);

  /// Rows may be nearer to one of `centers`, float64 [count, columns]. A collective.
  void add(const at::Tensor& centers);
  /// What the sum of weighted squared distances would be with each of `candidates` alone added. A collective.
  std::vector<double> totals_with(const at::Tensor& candidates) const;
  /// The sum of weighted squared distances; before the first add() the sum of weights.
  double total() const;
  /// Row numbers, each as likely as its weighted squared distance is large. A collective.
  std::vector<std::int64_t> draw(Random& random, std::int64_t count) const;
  /// Of a row of a block of this rank: weight times squared distance.
  double weighted(const Block& block, std::int64_t row) const {
    const double weight = block.weight(row);
    return weight *
           distances_[static_cast<std::size_t>(table_.own_place(block.first / table_.plan().block_rows) + row)];
  }

 private:
  const Table& table_;
  int threads_;
  std::int64_t centers_ = 0;
  std::vector<double> distances_;  // squared, by row of this rank; 1 before there are centroids
  std::vector<double> sums_;       // weighted, by block of all ranks
};

}  // namespace lockstep::ml
