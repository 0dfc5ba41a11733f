// Layers of linear maps with a ReLU between.
#include <functional>
#include <numeric>

#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

class Mlp : public torch::nn::Module {
 public:
  Mlp(std::int64_t inputs, const std::vector<std::int64_t>& hidden, std::int64_t outputs, double drop)
      : layers_(register_module("layers", torch::nn::ModuleList())),
        dropouts_(register_module("dropouts", torch::nn::ModuleList())) {
    for (const std::int64_t size : hidden) {
      if (size < 1) fail(Fault::Usage, "model.hidden holds the sizes of the layers, from 1 on");
      layers_->push_back(parallel::Linear(std::exchange(inputs, size), size));
      dropouts_->push_back(parallel::Dropout(drop));  // each its own, as a mask is of the layer's name
    }
    layers_->push_back(parallel::Linear(inputs, outputs));
  }

  /// Two layers make a link, the first of which may be split by its outputs and the second by its inputs.
  parallel::Chain chain() {
    parallel::Chain links;
    const std::size_t count = layers_->size();
    for (std::size_t first = 0; first < count; first += 2) {
      const std::size_t last = std::min(first + 2, count);
      parallel::Link link{fmt::format("layers.{}", first), {}, [this, first, last](const at::Tensor& input) {
                            at::Tensor values = input.flatten(1);
                            for (std::size_t number = first; number < last; ++number) values = layer(number, values);
                            return values;
                          }};
      for (std::size_t number = first; number < last; ++number) {
        link.modules.push_back(fmt::format("layers.{}", number));
        if (number + 1 < count) link.modules.push_back(fmt::format("dropouts.{}", number));
      }
      links.push_back(std::move(link));
    }
    return links;
  }

  parallel::TensorPlan tensor_plan(int) const {
    parallel::TensorPlan plan;
    for (std::size_t first = 0; first + 1 < layers_->size(); first += 2) {
      plan[fmt::format("layers.{}", first)] = plan[fmt::format("dropouts.{}", first)] = "column";
      plan[fmt::format("layers.{}", first + 1)] = "row";
    }
    return plan;
  }

 private:
  at::Tensor layer(std::size_t number, const at::Tensor& input) {
    const at::Tensor values = layers_->ptr<parallel::LinearImpl>(number)->forward(input);
    if (number + 1 == layers_->size()) return values;
    return dropouts_->ptr<parallel::DropoutImpl>(number)->forward(at::relu(values));
  }

  torch::nn::ModuleList layers_;
  torch::nn::ModuleList dropouts_;  // behind all layers but the last
};

const ModelRegistry::Add registered{
    "mlp", "Feed-forward: hidden sizes, dropout",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      const std::int64_t inputs =
          std::accumulate(data.input.begin(), data.input.end(), std::int64_t{1}, std::multiplies<>());
      return model_of<Mlp>(inputs, recipe.get(key + ".hidden", std::vector<std::int64_t>{512, 512}), data.outputs,
                           recipe.get(key + ".dropout", 0.0));
    }};

}  // namespace
}  // namespace lockstep::models
