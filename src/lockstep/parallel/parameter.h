// lockstep/parallel/parameter.h
//
// What the engines know of a model: its parameters by name, in the model's order.
#pragma once

#include "lockstep/data/safetensors.h"

namespace lockstep::parallel {

using Parameter = data::NamedTensor;
using Parameters = data::NamedTensors;

}  // namespace lockstep::parallel
