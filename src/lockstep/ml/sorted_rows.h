// lockstep/ml/sorted_rows.h
//
// The rows of a block one part behind the other, so that each part is a block of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Memory of a thread between blocks.
class SortedRows {
 public:
  /// Copies the rows, of which `part_of` gives the part, a number from 0 on. Those of a part keep their order.
  template <class Part>
  void sort(const Table& table, const Block& block, const Part* part_of, std::int64_t parts) {
    begin_.assign(static_cast<std::size_t>(parts) + 1, 0);
    for (std::int64_t row = 0; row < block.rows; ++row) ++begin_[static_cast<std::size_t>(part_of[row]) + 1];
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    auto next = begin_;
    bytes_ = table.columns() * static_cast<std::int64_t>(c10::elementSize(table.type()));
    targets_of_row_ = table.targets();
    values_.resize(static_cast<std::size_t>(block.rows * bytes_));
    targets_.resize(static_cast<std::size_t>(block.rows * targets_of_row_));
    weights_.resize(static_cast<std::size_t>(block.weights == nullptr ? 0 : block.rows));
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t to = next[static_cast<std::size_t>(part_of[row])]++;
      std::copy_n(block.x<std::byte>() + row * bytes_, bytes_, values_.data() + to * bytes_);
      std::copy_n(block.targets + row * targets_of_row_, targets_of_row_, targets_.data() + to * targets_of_row_);
      if (block.weights != nullptr) weights_[static_cast<std::size_t>(to)] = block.weights[row];
    }
  }

  /// Of what was sorted last. Its rows have no numbers in the table.
  Block part(std::int64_t number) const {
    const std::int64_t first = begin_[static_cast<std::size_t>(number)];
    return {.rows = begin_[static_cast<std::size_t>(number) + 1] - first,
            .values = values_.data() + first * bytes_,
            .targets = targets_.data() + first * targets_of_row_,
            .weights = weights_.empty() ? nullptr : weights_.data() + first};
  }

 private:
  std::int64_t bytes_ = 0, targets_of_row_ = 0;  // of a row
  std::vector<std::int64_t> begin_;              // by part, and the number of rows at its end
  std::vector<std::byte> values_;
  std::vector<double> targets_, weights_;
};

}  // namespace lockstep::ml
