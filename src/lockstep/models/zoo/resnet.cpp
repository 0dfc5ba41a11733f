// ResNet-18 and -50 as torchvision has them, names included; stem = "small" keeps the
// size of small images, as is usual for CIFAR.
#include <cmath>

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/container/sequential.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/batch_norm.h"
#include "lockstep/parallel/layers/convolution.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

using parallel::BatchNorm;
using parallel::Convolution;
using torch::nn::Sequential;

/// Begins so that slopes keep their size on the way back (He et al., 2015).
Convolution convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride) {
  Convolution layer(parallel::ConvolutionShape{
      .inputs = inputs, .outputs = outputs, .kernel = kernel, .stride = stride, .padding = kernel / 2, .bias = false});
  const auto fan_out = static_cast<double>(outputs * kernel * kernel);
  layer->begin_with(layer->weight, parallel::InitialValues::normal(std::sqrt(2 / fan_out)));
  return layer;
}

/// Convolutions and norms one after another, a ReLU between, around which the input passes by.
class Residual : public torch::nn::Module {
 public:
  struct Step {
    std::int64_t outputs, kernel, stride;
  };
  Residual(std::int64_t inputs, const std::vector<Step>& steps) {
    std::int64_t size = inputs, stride = 1;
    for (const auto& step : steps) {
      const std::string number = std::to_string(convolutions_.size() + 1);
      convolutions_.push_back(
          register_module("conv" + number, convolution(size, step.outputs, step.kernel, step.stride)));
      norms_.push_back(register_module("bn" + number, BatchNorm(step.outputs)));
      size = step.outputs;
      stride *= step.stride;
    }
    if (stride != 1 || size != inputs) {
      downsample_ = register_module("downsample", Sequential(convolution(inputs, size, 1, stride), BatchNorm(size)));
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor values = input;
    for (std::size_t number = 0; number < convolutions_.size(); ++number) {
      if (number > 0) values = at::relu(values);
      values = norms_[number](convolutions_[number](values));
    }
    return at::relu(values + (downsample_ ? downsample_->forward(input) : input));
  }

 private:
  std::vector<Convolution> convolutions_;
  std::vector<BatchNorm> norms_;
  Sequential downsample_{nullptr};
};

struct Shape {
  std::vector<int> blocks;  // of each of the four layers
  bool bottleneck;          // 1 x 1, 3 x 3, 1 x 1 with four times the channels, instead of two of 3 x 3
};

class ResNet : public torch::nn::Module {
 public:
  ResNet(const Shape& shape, bool small_stem, std::int64_t width, std::int64_t channels, std::int64_t outputs)
      : small_stem_(small_stem),
        bottleneck_(shape.bottleneck),
        conv1_(register_module("conv1", convolution(channels, width, small_stem ? 3 : 7, small_stem ? 1 : 2))),
        bn1_(register_module("bn1", BatchNorm(width))) {
    std::int64_t inputs = width;
    for (std::size_t layer = 0; layer < shape.blocks.size(); ++layer) {
      const std::int64_t inner = width << layer, last = shape.bottleneck ? 4 * inner : inner;
      layers_.push_back(register_module("layer" + std::to_string(layer + 1), Sequential()));
      for (int block = 0; block < shape.blocks[layer]; ++block) {
        const std::int64_t stride = layer > 0 && block == 0 ? 2 : 1;
        const std::vector<Residual::Step> steps =
            shape.bottleneck ? std::vector<Residual::Step>{{inner, 1, 1}, {inner, 3, stride}, {last, 1, 1}}
                             : std::vector<Residual::Step>{{inner, 3, stride}, {inner, 3, 1}};
        layers_.back()->push_back(std::make_shared<Residual>(inputs, steps));
        inputs = last;
      }
    }
    fc_ = register_module("fc", parallel::Linear(inputs, outputs));
  }

  parallel::Chain chain() {
    parallel::Chain links{{"stem", {"conv1", "bn1"}, [this](const at::Tensor& images) { return stem(images); }}};
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      for (std::size_t block = 0; block < layers_[layer]->size(); ++block) {
        const std::string name = fmt::format("layer{}.{}", layer + 1, block);
        links.push_back({name, {name}, [residual = layers_[layer]->ptr<Residual>(block)](const at::Tensor& values) {
                           return residual->forward(values);
                         }});
      }
    }
    links.push_back({"head", {"fc"}, [this](const at::Tensor& values) {
                       return fc_(at::adaptive_avg_pool2d(values, {1, 1}).flatten(1));
                     }});
    return links;
  }

  /// Within a block, the convolution before the last gives each rank some of its channels.
  parallel::TensorPlan tensor_plan(int) const {
    const auto pattern = [](const char* layer, int number) { return fmt::format("layer*.{}{}", layer, number); };
    const int first = bottleneck_ ? 2 : 1;
    return {{pattern("conv", first), "column"}, {pattern("bn", first), "column"}, {pattern("conv", first + 1), "row"}};
  }

 private:
  at::Tensor stem(const at::Tensor& images) {
    const at::Tensor values = at::relu(bn1_(conv1_(images)));
    return small_stem_ ? values : at::max_pool2d(values, {3, 3}, {2, 2}, {1, 1});
  }

  bool small_stem_, bottleneck_;
  Convolution conv1_;
  BatchNorm bn1_;
  std::vector<Sequential> layers_;
  parallel::Linear fc_{nullptr};
};

std::unique_ptr<Model> make(const Config& recipe, const std::string& key, const ModelData& data, const Shape& shape) {
  if (data.input.size() != 3) {
    fail(Fault::Usage, fmt::format("resnet takes images [channels, height, width], not [{}]; 'normalise image' in "
                                   "data.transforms makes them of bytes",
                                   fmt::join(data.input, ", ")));
  }
  const bool small = std::max(data.input[1], data.input[2]) <= 64;
  const std::string stem = recipe.get(key + ".stem", small ? "small" : "large");
  if (stem != "small" && stem != "large")
    fail(Fault::Usage, key + ".stem is \"small\" or \"large\", not \"" + stem + "\"");
  const std::int64_t width = recipe.get(key + ".width", 64);
  if (width < 1) fail(Fault::Usage, fmt::format("{}.width = {}: channels of the first layers, from 1 on", key, width));
  return model_of<ResNet>(shape, stem == "small", width, data.input[0], data.outputs);
}

const ModelRegistry::Add resnet18{"resnet18", "ResNet of 18 layers, as in torchvision: stem, width",
                                  [](const Config& recipe, const std::string& key, const ModelData& data) {
                                    return make(recipe, key, data, {{2, 2, 2, 2}, false});
                                  }};
const ModelRegistry::Add resnet50{"resnet50", "ResNet of 50 layers, as in torchvision: stem, width",
                                  [](const Config& recipe, const std::string& key, const ModelData& data) {
                                    return make(recipe, key, data, {{3, 4, 6, 3}, true});
                                  }};

}  // namespace
}  // namespace lockstep::models
