// lockstep/data/array_rows.h
//
// Arrays whose rows are samples: what npy, npz, IDX and HDF5 have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/index.h"

namespace lockstep::data {

/// Adds an array of `shape` that lies as it is at `place` (which may be longer) as a field and a
/// column. Fault::Data if it is cut short, or has not as many rows as the fields before it.
void add_array(Index& index, const std::string& name, c10::ScalarType type, const std::vector<std::int64_t>& shape,
               const Extent& place);
/// The field alone, and the count of samples: for arrays that lie in blocks.
void add_array_field(Index& index, const std::string& name, c10::ScalarType type,
                     const std::vector<std::int64_t>& shape);

/// Fault::Data if it is missing or has not as many bytes as the field says.
void check_row(const Field& field, const Value& value);

/// For a writer of one array: checks that the schema is one field of fixed() values.
class ArrayRows {
 public:
  explicit ArrayRows(const Schema& schema);
  const Field& field() const noexcept { return field_; }
  /// Of the whole array.
  std::vector<std::int64_t> shape_of(std::int64_t rows) const;
  /// Checks that it has them, and as many as the field says.
  Bytes bytes(const Sample& sample, std::size_t place = 0) const;

 private:
  Field field_;
};

}  // namespace lockstep::data
