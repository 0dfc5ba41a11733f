// lockstep/ml/fitted_rows.h
//
// Rows that are asked for the nearest of them: those of a table, which stay where they are
// while queries travel, or rows in memory.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Of each query, the nearest first; of equally far ones the lowest row number.
struct Neighbors {
  at::Tensor distances;  // float64 [queries, k]
  at::Tensor indices;    // int64 [queries, k], numbers in the whole table
  at::Tensor targets;    // float64 [queries, k, targets]: those of the rows
};

class FittedRows {
 public:
  virtual ~FittedRows() = default;
  /// Of this rank's queries [queries, columns], in the type of the rows. Of a table it is a collective. Fault::Usage if
  /// the columns are not those of the rows, Fault::Data if a value is not finite or too large for squares of distances;
  /// of a table on all ranks.
  virtual Neighbors nearest(const at::Tensor& queries, std::int64_t k, int threads) const = 0;
  /// All rows, their targets and names; of a table on rank 0, and a collective.
  virtual TableRows all() const = 0;
};

/// A collective, as it checks that all values are finite. It keeps the table.
std::shared_ptr<const FittedRows> rows_of_table(std::shared_ptr<const Table> table);
/// Of this process alone. `rows` have targets [rows, targets].
std::shared_ptr<const FittedRows> rows_in_memory(TableRows rows);

}  // namespace lockstep::ml
