#include "lockstep/models/weights.h"

#include <algorithm>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/models/safetensors.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::models {
namespace {

parallel::Parameters tensors_of(Model& model) {
  auto all = parallel::parameters_of(model.module());
  for (auto& buffer : parallel::buffers_of(model.module())) all.push_back(std::move(buffer));
  return all;
}

/// What stands in front of every name in the file: "", or as much as the first one has in front of its own.
std::string prefix_of(const parallel::Parameters& wanted, const Safetensors& file) {
  if (wanted.empty() || file.contains(wanted[0].name)) return "";
  for (const auto& name : file.names()) {
    if (name.ends_with("." + wanted[0].name)) return name.substr(0, name.size() - wanted[0].name.size());
  }
  return "";
}

}  // namespace

void save_weights(Model& model, const std::string& path) { write_safetensors(path, tensors_of(model)); }

void load_weights(Model& model, const std::string& path) {
  const Safetensors file(path);
  const auto wanted = tensors_of(model);
  const std::string prefix = prefix_of(wanted, file);
  const at::NoGradGuard no_gradients;
  std::vector<std::string> missing;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // made when all is known to fit
  for (const auto& [name, tensor] : wanted) {
    if (!file.contains(prefix + name)) {
      missing.push_back(name);
      continue;
    }
    const at::Tensor values = model.from_published(file, prefix, name);
    if (values.sizes() != tensor.sizes()) {
      fail(Fault::Usage, fmt::format("'{}' is [{}] in {} and [{}] in the model: they are of different models", name,
                                     fmt::join(values.sizes(), ", "), path, fmt::join(tensor.sizes(), ", ")));
    }
    copies.emplace_back(tensor, values);
  }
  if (!missing.empty()) {
    fail(Fault::Usage, fmt::format("{} lacks {} of {} tensors of the model: {}{}", path, missing.size(), wanted.size(),
                                   fmt::join(missing.begin(),
                                             missing.begin() + std::min<std::ptrdiff_t>(3, std::ssize(missing)), ", "),
                                   missing.size() > 3 ? ", …" : ""));
  }
  for (auto& [to, from] : copies) to.copy_(from);
}

}  // namespace lockstep::models
