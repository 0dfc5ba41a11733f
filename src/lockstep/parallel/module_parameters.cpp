#include "lockstep/parallel/module_parameters.h"

#include <map>
#include <string>

#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/layers/embedding.h"

namespace lockstep::parallel {
namespace {

Parameters by_name(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  Parameters result;
  for (const auto& named : tensors) {
    if (named.value().defined()) result.push_back({named.key(), named.value()});
  }
  return result;
}

at::Tensor sparse_weight(const torch::nn::Module& module) {
  if (const auto* one = module.as<torch::nn::EmbeddingImpl>())
    return one->options.sparse() ? one->weight : at::Tensor();
  if (const auto* ours = module.as<EmbeddingImpl>()) return ours->is_sparse() ? ours->weight : at::Tensor();
  if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>())
    return bag->options.sparse() ? bag->weight : at::Tensor();
  return {};
}

void add_sparse(std::set<std::string>& names, const Parameters& parameters, const torch::nn::Module& module) {
  const at::Tensor weight = sparse_weight(module);
  for (const auto& [name, tensor] : parameters) {
    if (weight.defined() && tensor.is_same(weight)) names.insert(name);
  }
  for (const auto& child : module.children()) add_sparse(names, parameters, *child);
}

}  // namespace

void check_registered_once(const Parameters& parameters) {
  std::map<const at::TensorImpl*, const std::string*> names;
  for (const auto& [name, tensor] : parameters) {
    const auto [first, is_new] = names.emplace(tensor.unsafeGetTensorImpl(), &name);
    if (is_new) continue;
    fail(Fault::Usage,
         fmt::format("'{}' is '{}' under a second name: register the module once and name it in both links", name,
                     *first->second));
  }
}

Parameters parameters_of(const torch::nn::Module& model) { return by_name(model.named_parameters()); }
std::set<std::string> sparse_parameters_of(const torch::nn::Module& model) {
  std::set<std::string> names;
  add_sparse(names, parameters_of(model), model);
  return names;
}
Parameters buffers_of(const torch::nn::Module& model) { return by_name(model.named_buffers()); }

}  // namespace lockstep::parallel
