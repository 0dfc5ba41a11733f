#include "lockstep/models/weights.h"

#include <algorithm>
#include <set>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/name_pattern.h"

namespace lockstep::models {
namespace {

parallel::Parameters tensors_of(const torch::nn::Module& model) {
  auto all = parallel::parameters_of(model);
  for (auto& buffer : parallel::buffers_of(model)) all.push_back(std::move(buffer));
  return all;
}

/// What stands in front of every name in the file: "", or as much as the first one has in front of its own.
std::string prefix_of(const parallel::Parameters& wanted, const data::Safetensors& file) {
  for (const auto& tensor : wanted) {
    if (file.contains(tensor.name)) return "";
    for (const auto& name : file.names()) {
      if (name.ends_with("." + tensor.name)) return name.substr(0, name.size() - tensor.name.size());
    }
  }
  return "";
}

std::string list(const std::vector<std::string>& names) { return list_some(names, 10); }

void check_patterns(const std::string& key, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& names) {
  for (const auto& pattern : patterns) {
    if (std::any_of(names.begin(), names.end(), [&](const auto& name) { return parallel::fits(pattern, name); }))
      continue;
    fail(Fault::Usage, fmt::format("{}: nothing has a name like '{}'; there are {}", key, pattern, list(names)));
  }
}

/// How file and model disagree.
struct Differences {
  std::vector<std::string> missing, unexpected, shapes;

  void refuse(const std::string& path) const {
    std::vector<std::string> texts;
    if (!missing.empty()) texts.push_back("it lacks " + list(missing));
    if (!unexpected.empty()) texts.push_back("the model has no " + list(unexpected));
    if (!shapes.empty()) texts.push_back(list(shapes));
    if (texts.empty()) return;
    fail(Fault::Usage, fmt::format("{} does not fit the model: {}; what is to stay as it begins, such as a head of "
                                   "other classes, name in model.weights_except",
                                   path, fmt::join(texts, "; ")));
  }
};

}  // namespace

void save_weights(const torch::nn::Module& model, const std::string& path) {
  data::write_safetensors(path, tensors_of(model));
}
void save_weights(Model& model, const std::string& path) { save_weights(model.module(), path); }

void load_weights(Model& model, const std::string& path, const std::vector<std::string>& except) {
  const data::Safetensors file(path);
  const auto tensors = tensors_of(model.module());
  const std::string prefix = prefix_of(tensors, file);
  const at::NoGradGuard no_gradients;
  Differences differences;
  std::vector<std::string> names;                         // of the model and of the file, without its prefix
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // made when all is known to fit
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
    if (parallel::fits_any(except, name)) continue;
    if (!file.contains(prefix + name)) {
      differences.missing.push_back(name);
      continue;
    }
    const at::Tensor values = model.from_published(file, prefix, name);
    if (values.sizes() == tensor.sizes()) {
      copies.emplace_back(tensor, values);
    } else {
      differences.shapes.push_back(fmt::format("'{}' is [{}] in the file and [{}] in the model", name,
                                               fmt::join(values.sizes(), ", "), fmt::join(tensor.sizes(), ", ")));
    }
  }
  const std::set<std::string> known(names.begin(), names.end());
  for (const auto& full : file.names()) {
    const std::string name = full.starts_with(prefix) ? full.substr(prefix.size()) : full;
    if (known.contains(name)) continue;
    names.push_back(name);
    if (!parallel::fits_any(except, name) && !model.does_without(name)) differences.unexpected.push_back(name);
  }
  check_patterns("model.weights_except", except, names);
  differences.refuse(path);
  for (auto& [to, from] : copies) to.copy_(from);
}

void freeze(Model& model, const std::vector<std::string>& patterns) {
  check_patterns("model.frozen", patterns, model.parameter_names);
  for (const auto& [name, tensor] : parallel::parameters_of(model.module())) {
    if (parallel::fits_any(patterns, name)) tensor.requires_grad_(false);
  }
}

}  // namespace lockstep::models
