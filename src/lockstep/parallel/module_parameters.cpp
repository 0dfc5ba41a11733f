#include "lockstep/parallel/module_parameters.h"

#include <torch/nn/module.h>

namespace lockstep::parallel {
namespace {

Parameters by_name(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  Parameters result;
  for (const auto& named : tensors) {
    if (named.value().defined()) result.push_back({named.key(), named.value()});
  }
  return result;
}

}  // namespace

Parameters parameters_of(const torch::nn::Module& model) { return by_name(model.named_parameters()); }
Parameters buffers_of(const torch::nn::Module& model) { return by_name(model.named_buffers()); }

}  // namespace lockstep::parallel
