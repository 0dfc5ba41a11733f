// apps/ml/write_values.h
//
// Numbers that a program computed, as a data set in a file of any format that can be written:
// by the ending of its name, as a whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/field.h"
#include "lockstep/data/format.h"

namespace lockstep::apps {

/// Before hours of work: Fault::Usage if the name of a file does not say in which format, or in one that cannot hold
/// such fields; empty: there is none.
void check_can_hold(const std::string& path, const data::Schema& schema);
/// The same of values, one in each field.
void check_names_format(const std::string& path);

/// Tensors are [rows] or [rows, …], with as many rows each; type and shape of a field are those of its tensor.
void write_fields(const std::string& path, std::vector<std::pair<data::Field, at::Tensor>> fields);

/// A field of each name, some rows after others; `value_names` are what the values 0, 1, … stand for, if they are
/// labels: CSV has them instead of the numbers. An array (.npy) has several names side by side. With an empty path:
/// printed as CSV.
class ValuesFile {
 public:
  ValuesFile(std::string path, std::vector<std::string> names, std::vector<std::string> value_names);
  ~ValuesFile();
  ValuesFile(const ValuesFile&) = delete;
  ValuesFile& operator=(const ValuesFile&) = delete;

  /// [rows] or [rows, names]; of no rows at all it is called once, too, as it says of which type they are.
  void add(const at::Tensor& values);
  /// Nothing is at the path before, and all of it after.
  void finish();

 private:
  class Lines;
  void add_samples(const at::Tensor& values);

  std::string path_;
  std::vector<std::string> names_, value_names_;
  std::unique_ptr<Lines> lines_;          // of CSV
  std::unique_ptr<data::Writer> writer_;  // of others, from the first rows on
  std::int64_t rows_ = 0;                 // so far
};

/// All rows at once.
void write_values(const std::string& path, const std::vector<std::string>& names,
                  const std::vector<std::string>& value_names, const at::Tensor& values);

}  // namespace lockstep::apps
