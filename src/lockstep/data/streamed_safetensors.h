// lockstep/data/streamed_safetensors.h
//
// Tensors that are never in memory all at once, written to one file of safetensors.
#pragma once

#include <functional>
#include <string>

#include "lockstep/data/safetensors.h"

namespace lockstep::data {

/// As write_safetensors(): `tensors` say names, types and shapes, and `values_of` gives the values of one after
/// another.
WrittenFile stream_safetensors(const std::string& path, const NamedTensors& tensors,
                               const std::function<at::Tensor(const NamedTensor&)>& values_of, const Texts& facts = {},
                               bool durable = false);

}  // namespace lockstep::data
