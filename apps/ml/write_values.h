// apps/ml/write_values.h
//
// What was said of rows, as a data set in a file of any format that can be written.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::apps {

/// A field of each name, of `values` [rows] or [rows, names]; `value_names` are what the values 0, 1, … stand for, if
/// they are labels.
void write_values(const std::string& path, const std::vector<std::string>& names,
                  const std::vector<std::string>& value_names, const at::Tensor& values);

}  // namespace lockstep::apps
