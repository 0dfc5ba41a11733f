// lockstep/models/module_model.h
//
// A module as a Model, for the files of zoo/ and for yours (examples/own_blocks.cpp). It has chain(), or
// forward() if it is one link, and what else of a Model it would say otherwise than is usual.
#pragma once

#include <memory>
#include <utility>

#include <ATen/ops/cat.h>
#include <torch/nn/module.h>

#include "lockstep/data/safetensors.h"
#include "lockstep/models/model.h"

namespace lockstep::models {

template <class Module>
class ModuleModel final : public Model {
 public:
  explicit ModuleModel(std::shared_ptr<Module> module) : module_(std::move(module)), chain_(chain_of(*module_)) {}
  at::Tensor forward(const at::Tensor& input) override { return parallel::run(chain_, input); }
  const parallel::Chain& chain() const noexcept override { return chain_; }
  parallel::TensorPlan tensor_plan(int ranks) const override {
    if constexpr (requires { module_->tensor_plan(ranks); }) {
      return module_->tensor_plan(ranks);
    } else {
      return {};
    }
  }
  parallel::TensorPlan sequence_plan(int ranks) const override {
    if constexpr (requires { module_->sequence_plan(ranks); }) {
      return module_->sequence_plan(ranks);
    } else {
      return {};
    }
  }
  bool has_made_inputs() const noexcept override {
    if constexpr (requires { Module::has_made_inputs(); }) {
      return Module::has_made_inputs();
    } else {
      return false;
    }
  }
  parallel::ClassSplit class_split() const override {
    if constexpr (requires { module_->class_split(); }) {
      return module_->class_split();
    } else {
      return {};
    }
  }
  std::int64_t context() const noexcept override {
    if constexpr (requires { module_->context(); }) {
      return module_->context();
    } else {
      return 0;
    }
  }
  at::Tensor continued(const at::Tensor& tokens, Past& past) override {
    if constexpr (requires { module_->continued(tokens, past); }) {
      return module_->continued(tokens, past);
    } else {
      past.tokens = past.tokens.defined() ? at::cat({past.tokens, tokens}, 1) : tokens;
      return forward(past.tokens).select(1, -1);
    }
  }
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
  static parallel::Chain chain_of(Module& module) {
    if constexpr (requires { module.chain(); }) {
      return module.chain();
    } else {
      return {{"model", {""}, [&module](const at::Tensor& input) { return module.forward(input); }}};
    }
  }

  std::shared_ptr<Module> module_;
  parallel::Chain chain_;
};

template <class Module, class... Arguments>
std::unique_ptr<Model> model_of(Arguments&&... arguments) {
  return std::make_unique<ModuleModel<Module>>(std::make_shared<Module>(std::forward<Arguments>(arguments)...));
}

}  // namespace lockstep::models
