// lockstep/models/model.h
//
// A Model is a torch::nn::Module that a recipe makes by name. A new one is one new file
// in zoo/. Its parameters have the names that they have in PyTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/core/config.h"
#include "lockstep/core/registry.h"

namespace torch::nn {
class Module;
}

namespace lockstep::data {
class Safetensors;
}

namespace lockstep::models {

class Model {
 public:
  virtual ~Model() = default;
  /// [batch, …] to [batch, outputs], of tokens [batch, time] to [batch, time, outputs].
  virtual at::Tensor forward(const at::Tensor& input) = 0;
  virtual torch::nn::Module& module() noexcept = 0;
  /// The tensor prefix + name of a file, as this model keeps it: files of others may have their own conventions.
  virtual at::Tensor from_published(const data::Safetensors& file, const std::string& prefix,
                                    const std::string& name) const = 0;
  /// Whether files of others hold a tensor of this name that is no weight, such as a mask, and so is passed over.
  virtual bool does_without(const std::string& name) const = 0;
};

/// What the data says of a model, where the recipe does not.
struct ModelData {
  std::vector<std::int64_t> input;  // shape of one sample
  std::int64_t outputs = 0;         // classes, or words
};

/// `key` names the table of the recipe that it reads.
using ModelRegistry =
    Registry<std::unique_ptr<Model>(const Config& recipe, const std::string& key, const ModelData& data)>;

/// Initial weights are a function of `seed` alone. One thread of a process at a time: torch has one generator.
std::unique_ptr<Model> make_model(const std::string& name, const Config& recipe, const std::string& key,
                                  const ModelData& data, std::uint64_t seed);

}  // namespace lockstep::models
