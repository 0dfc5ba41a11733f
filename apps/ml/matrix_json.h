// apps/ml/matrix_json.h
//
// Numbers of a report as JSON.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

namespace lockstep::apps {

/// A list, of a matrix a list of its rows. `values` are float64. What is not finite becomes null.
inline nlohmann::json json_of(const at::Tensor& values) {
  nlohmann::json list = nlohmann::json::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (values.dim() == 1) {
      list.push_back(values[i].item<double>());
    } else {
      list.push_back(json_of(values[i]));
    }
  }
  return list;
}

}  // namespace lockstep::apps
