// lockstep/ml/table.h
//
// A Table is a matrix of all ranks of a group together, of which each holds some rows.
// Rows are cut into blocks by their number in the whole table: what is computed of a
// block, and the order in which blocks are combined (see fold.h), depend neither on how
// many ranks hold them nor on how many threads compute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/ml/sweep.h"

namespace lockstep::ml {

struct Preparation;

/// Neighbouring rows, one behind the other.
struct Block {
  std::int64_t first = 0;  // number of its first row in the whole table
  std::int64_t rows = 0;
  const void* values = nullptr;     // [rows, columns], of the table's type
  const double* targets = nullptr;  // [rows, targets]; null: there are none
  const double* weights = nullptr;  // [rows]; null: all are 1

  template <class T>
  const T* x() const noexcept {
    return static_cast<const T*>(values);
  }
  double weight(std::int64_t row) const noexcept { return weights == nullptr ? 1 : weights[row]; }
};

/// How rows become blocks, and which rank has which.
struct BlockPlan {
  std::int64_t rows = 0;
  std::int64_t block_rows = 1;            // of all blocks but perhaps the last
  std::vector<std::int64_t> first_block;  // by rank, and the number of blocks at its end

  std::int64_t blocks() const noexcept { return first_block.back(); }
  std::int64_t begin(std::int64_t block) const noexcept { return std::min(block * block_rows, rows); }
  std::int64_t rows_of(std::int64_t block) const noexcept { return begin(block + 1) - begin(block); }

  /// A block of many columns has fewer rows, so that it fits into a cache.
  static std::int64_t rows_of_block(std::int64_t columns);
  /// Equally many blocks for each rank, as far as it goes, and so that each rank has few nodes of the tree.
  static BlockPlan even(std::int64_t rows, std::int64_t columns, int ranks);
};

class Table {
 public:
  virtual ~Table() = default;

  comm::Communicator& group() const noexcept { return group_; }
  const BlockPlan& plan() const noexcept { return plan_; }
  std::int64_t rows() const noexcept { return plan_.rows; }
  std::int64_t columns() const noexcept { return columns_; }
  std::int64_t targets() const noexcept { return targets_; }
  bool weighted() const noexcept { return weighted_; }
  /// Float or Double.
  at::ScalarType type() const noexcept { return type_; }
  /// Of columns; empty if they have none.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// Of targets; of a table without names "target", or "target[1]" of several.
  const std::vector<std::string>& target_names() const noexcept { return target_names_; }
  /// What the values 0, 1, … of the only target stand for; empty if they stand for nothing.
  const std::vector<std::string>& value_names() const noexcept { return value_names_; }
  /// Rows of the source that are not in it, as values of theirs are missing; the others are numbered without them.
  std::int64_t left_out() const noexcept { return left_out_; }
  /// What was done to its columns; null: nothing.
  const std::shared_ptr<const Preparation>& preparation() const noexcept { return preparation_; }
  /// "column 3", or its name if it has one; targets follow the columns.
  std::string name_of(std::int64_t column) const;
  /// Who is told of passes over its rows, on this rank; null: nobody.
  const std::shared_ptr<SweepObserver>& observer() const noexcept { return observer_; }
  /// Where a row is stored, for messages, by its number in the whole table; empty if this rank does not know.
  std::string place_of(std::int64_t row) const { return place_of_row_ ? place_of_row_(row) : std::string(); }

  /// Of this rank's blocks: [own_begin(), own_end()).
  std::int64_t own_begin() const noexcept { return plan_.first_block[static_cast<std::size_t>(group_.rank())]; }
  std::int64_t own_end() const noexcept { return plan_.first_block[static_cast<std::size_t>(group_.rank()) + 1]; }
  /// Rows of this rank's blocks, and where in them a block begins.
  std::int64_t own_rows() const noexcept { return plan_.begin(own_end()) - plan_.begin(own_begin()); }
  std::int64_t own_place(std::int64_t block) const noexcept { return plan_.begin(block) - plan_.begin(own_begin()); }

  /// One of this rank's. It may lie in `scratch`, which the same thread's next call overwrites. Any thread may call.
  virtual Block block(std::int64_t number, at::Tensor& scratch) const = 0;
  /// The same of `count` rows from `first` on, all in one of its blocks; no others are read from where rows are stored.
  virtual Block some(std::int64_t first, std::int64_t count, at::Tensor& scratch) const;

 protected:
  explicit Table(comm::Communicator& group) : group_(group) {}
  /// Of a table that shows another's rows: all that is said of them.
  Table(const Table&) = default;

  comm::Communicator& group_;
  BlockPlan plan_;
  std::int64_t columns_ = 0;
  std::int64_t targets_ = 0;
  bool weighted_ = false;
  std::int64_t left_out_ = 0;
  at::ScalarType type_ = at::kDouble;
  std::vector<std::string> names_, target_names_, value_names_;
  std::shared_ptr<const Preparation> preparation_;
  std::function<std::string(std::int64_t)> place_of_row_;
  std::shared_ptr<SweepObserver> observer_;
};

/// What a rank brings.
struct TableRows {
  at::Tensor x;                         // [rows, columns] float32 or float64
  at::Tensor targets = {};              // [rows] or [rows, targets], of any real type
  at::Tensor weights = {};              // [rows], of any real type, none below 0
  std::vector<std::string> names = {};  // of columns
  std::vector<std::string> target_names = {};
  std::vector<std::string> value_names = {};  // of the only target's values 0, 1, …
  std::int64_t left_out = 0;                  // rows of this rank's that are not among them
  std::shared_ptr<const Preparation> preparation = {};
  std::function<std::string(std::int64_t)> place_of_row = {};  // by its number among these
  std::shared_ptr<SweepObserver> observer = {};
};

/// Of rows in memory, as many on each rank as it has: those of rank 0 first. A collective; only rows at the edges of
/// ranks travel, so that each block is whole. Fault::Usage, on all ranks, if they do not go together.
std::unique_ptr<Table> make_table(comm::Communicator& group, TableRows rows);

/// Rows by their number in the whole table, on every rank: float64 [numbers, columns]. A collective.
at::Tensor rows_at(const Table& table, const std::vector<std::int64_t>& numbers);

/// Fault::Data, on all ranks, naming the first value that is not finite, if there is one. A collective.
void check_finite(const Table& table);
/// The same without the targets, of rows that are asked for: none may be left out.
void check_finite_columns(const Table& table);
/// The same of the first value of a column that is below 0.
void check_not_negative(const Table& table);

/// Calls `work` with an object of type float or double, whichever the table holds.
template <class Work>
auto with_type_of(const Table& table, const Work& work) {
  return table.type() == at::kFloat ? work(float{}) : work(double{});
}

}  // namespace lockstep::ml
