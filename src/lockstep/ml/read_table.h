// lockstep/ml/read_table.h
//
// The numbers of a data set as a Table: every rank reads the rows of its blocks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/open.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Which fields of a data set become what.
struct ColumnChoice {
  std::vector<std::string> columns = {};  // empty: all but labels, targets, weights and those left out
  std::vector<std::string> exclude = {};
  std::vector<std::string> targets = {};
  std::string weights = {};
  std::string type = {};  // "float32" or "float64"; empty: float32 where all columns are, else float64
};

/// Where the values of a row come from, by the schema of a data set.
class RowLayout {
 public:
  /// Fault::Usage if a field is missing or holds no numbers of one size, naming the remedy.
  RowLayout(const data::Schema& schema, const ColumnChoice& choice);

  /// Of each column: that of its field, of a field of several values with their number: "image[17]".
  const std::vector<std::string>& names() const noexcept { return names_; }
  std::int64_t columns() const noexcept { return static_cast<std::int64_t>(names_.size()); }
  const std::vector<std::string>& target_names() const noexcept { return target_names_; }
  std::int64_t targets() const noexcept { return static_cast<std::int64_t>(target_names_.size()); }
  /// What the values 0, 1, … of the only target stand for, if they are labels.
  std::vector<std::string> value_names() const;
  bool weighted() const noexcept { return !weights_.empty(); }
  at::ScalarType type() const noexcept { return type_; }

  /// Values of a sample, into places as wide as columns() and targets() say. What is missing is NaN.
  void read(const data::Sample& sample, float* columns, double* targets, double* weight) const;
  void read(const data::Sample& sample, double* columns, double* targets, double* weight) const;

 private:
  std::vector<std::pair<std::size_t, data::Field>> columns_, targets_, weights_;  // place in the schema, and what it is
  std::vector<std::string> names_, target_names_;
  at::ScalarType type_;
};

/// The fields that columns of such names come from: of "image[0]", "image[1]" and "age" these are "image" and "age".
std::vector<std::string> fields_of(const std::vector<std::string>& columns);

/// All rows in memory. A source with {rank} in its name has a part for each rank, else all ranks see all of it. A
/// collective.
std::unique_ptr<Table> read_table(comm::Communicator& group, const std::string& source,
                                  const data::OpenOptions& options, const ColumnChoice& choice, int threads);

/// Rows [first, first + count) of a data set, of this process alone.
TableRows read_rows(const data::Dataset& dataset, std::int64_t first, std::int64_t count, const RowLayout& layout,
                    int threads);

}  // namespace lockstep::ml
