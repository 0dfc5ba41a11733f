// lockstep/parallel/parameter.h
//
// What the engines know of a model: its parameters by name, in the model's order.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

struct Parameter {
  std::string name;
  at::Tensor tensor;
};
using Parameters = std::vector<Parameter>;

}  // namespace lockstep::parallel
