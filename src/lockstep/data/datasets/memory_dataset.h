// lockstep/data/datasets/memory_dataset.h
//
// Small sets that are held in memory.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// `columns[place]` has the values of field `place`, fixed() values, of all samples one behind the
/// other. Fault::Internal unless all have as many.
DatasetPtr memory_dataset(std::string name, Schema schema, std::vector<std::string> columns);

/// Numbers as the bytes of a column.
template <class Number>
std::string column_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

}  // namespace lockstep::data
