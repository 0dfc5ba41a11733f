// AlexNet as torchvision has it, names included.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/convolution.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

using parallel::Convolution;
using parallel::ConvolutionShape;

/// Children by the numbers that they have among torchvision's layers.
class Numbered : public torch::nn::Module {
 public:
  template <class Layer>
  Layer add(int number, Layer layer) {
    return register_module(std::to_string(number), std::move(layer));
  }
};

class AlexNet : public torch::nn::Module {
 public:
  AlexNet(std::int64_t channels, std::int64_t outputs, double drop)
      : features_(register_module("features", std::make_shared<Numbered>())),
        classifier_(register_module("classifier", std::make_shared<Numbered>())),
        conv0_(features_->add(0, Convolution(ConvolutionShape{
                                     .inputs = channels, .outputs = 64, .kernel = 11, .stride = 4, .padding = 2}))),
        conv3_(
            features_->add(3, Convolution(ConvolutionShape{.inputs = 64, .outputs = 192, .kernel = 5, .padding = 2}))),
        conv6_(
            features_->add(6, Convolution(ConvolutionShape{.inputs = 192, .outputs = 384, .kernel = 3, .padding = 1}))),
        conv8_(
            features_->add(8, Convolution(ConvolutionShape{.inputs = 384, .outputs = 256, .kernel = 3, .padding = 1}))),
        conv10_(features_->add(
            10, Convolution(ConvolutionShape{.inputs = 256, .outputs = 256, .kernel = 3, .padding = 1}))),
        drop0_(classifier_->add(0, parallel::Dropout(drop))),
        drop3_(classifier_->add(3, parallel::Dropout(drop))),
        fc1_(classifier_->add(1, parallel::Linear(256 * 6 * 6, 4096))),
        fc4_(classifier_->add(4, parallel::Linear(4096, 4096))),
        fc6_(classifier_->add(6, parallel::Linear(4096, outputs))) {}

  /// What is split by outputs and what is split by inputs lie in one link.
  parallel::Chain chain() {
    return {{"features.0",
             {"features.0", "features.3"},
             [this](const at::Tensor& images) { return pool(at::relu(conv3_(pool(at::relu(conv0_(images)))))); }},
            {"features.6",
             {"features.6", "features.8"},
             [this](const at::Tensor& values) { return at::relu(conv8_(at::relu(conv6_(values)))); }},
            {"features.10",
             {"features.10", "classifier.0"},
             [this](const at::Tensor& values) {
               return drop0_(at::adaptive_avg_pool2d(pool(at::relu(conv10_(values))), {6, 6}).flatten(1));
             }},
            {"classifier.1",
             {"classifier.1", "classifier.3", "classifier.4"},
             [this](const at::Tensor& values) { return at::relu(fc4_(drop3_(at::relu(fc1_(values))))); }},
            {"classifier.6", {"classifier.6"}, [this](const at::Tensor& values) { return fc6_(values); }}};
  }

  parallel::TensorPlan tensor_plan(int) const {
    return {{"features.0", "column"},   {"features.3", "row"},      {"features.6", "column"}, {"features.8", "row"},
            {"classifier.1", "column"}, {"classifier.3", "column"}, {"classifier.4", "row"}};
  }

 private:
  static at::Tensor pool(const at::Tensor& values) { return at::max_pool2d(values, {3, 3}, {2, 2}); }

  std::shared_ptr<Numbered> features_, classifier_;
  Convolution conv0_, conv3_, conv6_, conv8_, conv10_;
  parallel::Dropout drop0_, drop3_;
  parallel::Linear fc1_, fc4_, fc6_;
};

const ModelRegistry::Add registered{
    "alexnet", "AlexNet, as in torchvision: dropout",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      constexpr std::int64_t kLeast = 63;  // below it nothing is left after the last pool
      if (data.input.size() != 3 || data.input[1] < kLeast || data.input[2] < kLeast) {
        fail(Fault::Usage,
             fmt::format("alexnet takes images [channels, height, width] of at least {0} x {0}, not [{1}]; "
                         "'resize image size=224' in data.transforms makes them so",
                         kLeast, fmt::join(data.input, ", ")));
      }
      return model_of<AlexNet>(data.input[0], data.outputs, recipe.get(key + ".dropout", 0.5));
    }};

}  // namespace
}  // namespace lockstep::models
