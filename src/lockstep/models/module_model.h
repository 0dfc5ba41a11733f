// lockstep/models/module_model.h
//
// For the files of zoo/: a module as a Model.
#pragma once

#include <memory>
#include <utility>

#include <torch/nn/module.h>

#include "lockstep/data/safetensors.h"
#include "lockstep/models/model.h"

namespace lockstep::models {

template <class Module>
class ModuleModel final : public Model {
 public:
  explicit ModuleModel(std::shared_ptr<Module> module) : module_(std::move(module)) {}
  at::Tensor forward(const at::Tensor& input) override { return module_->forward(input); }
  torch::nn::Module& module() noexcept override { return *module_; }
  at::Tensor from_published(const data::Safetensors& file, const std::string& prefix,
                            const std::string& name) const override {
    if constexpr (requires { Module::from_published(file, prefix, name); }) {
      return Module::from_published(file, prefix, name);
    } else {
      return file.read(prefix + name);
    }
  }
  bool does_without(const std::string& name) const override {
    if constexpr (requires { Module::does_without(name); }) {
      return Module::does_without(name);
    } else {
      return false;
    }
  }

 private:
  std::shared_ptr<Module> module_;
};

template <class Module, class... Arguments>
std::unique_ptr<Model> model_of(Arguments&&... arguments) {
  return std::make_unique<ModuleModel<Module>>(std::make_shared<Module>(std::forward<Arguments>(arguments)...));
}

}  // namespace lockstep::models
