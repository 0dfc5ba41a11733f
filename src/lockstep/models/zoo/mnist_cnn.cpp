// The network of PyTorch's own MNIST example: two convolutions, two linear layers.
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/convolution.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"
#include "lockstep/parallel/layers/max_pool.h"

namespace lockstep::models {
namespace {

using parallel::Convolution;
using parallel::ConvolutionShape;

class MnistCnn : public torch::nn::Module {
 public:
  MnistCnn(std::int64_t channels, std::int64_t height, std::int64_t width, std::int64_t outputs, double drop)
      : conv1_(register_module("conv1", Convolution(ConvolutionShape{.inputs = channels, .outputs = 32, .kernel = 3}))),
        conv2_(register_module("conv2", Convolution(ConvolutionShape{.inputs = 32, .outputs = 64, .kernel = 3}))),
        dropout1_(register_module("dropout1", parallel::Dropout(drop / 2))),
        dropout2_(register_module("dropout2", parallel::Dropout(drop))),
        fc1_(register_module("fc1", parallel::Linear(64 * ((height - 4) / 2) * ((width - 4) / 2), 128))),
        fc2_(register_module("fc2", parallel::Linear(128, outputs))) {}

  parallel::Chain chain() {
    return {{"convolutions", {"conv1", "conv2", "dropout1"}, [this](const at::Tensor& images) { return seen(images); }},
            {"classifier", {"fc1", "dropout2", "fc2"}, [this](const at::Tensor& values) {
               return fc2_(dropout2_(at::relu(fc1_(values))));
             }}};
  }

  parallel::TensorPlan tensor_plan(int) const {
    return {{"conv1", "column"}, {"conv2", "row"}, {"fc1", "column"}, {"dropout2", "column"}, {"fc2", "row"}};
  }

 private:
  at::Tensor seen(const at::Tensor& images) {
    at::Tensor values = at::relu(conv1_(images));  // [batch, 32, height - 2, width - 2]
    // Whichever comes first, the values and slopes are the same; a quarter of the pixels are left.
    values = at::relu(parallel::max_pool_2x2(conv2_(values)));  // [batch, 64, (height - 4) / 2, (width - 4) / 2]
    return dropout1_(values).flatten(1);
  }

  Convolution conv1_, conv2_;
  parallel::Dropout dropout1_, dropout2_;
  parallel::Linear fc1_, fc2_;
};

const ModelRegistry::Add registered{
    "mnist_cnn", "Two convolutions and two linear layers, for small images: dropout",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      if (data.input.size() != 3 || data.input[1] < 6 || data.input[2] < 6) {
        fail(Fault::Usage, fmt::format("mnist_cnn takes images [channels, height, width] of at least 6 x 6, not [{}]; "
                                       "'normalise image' in data.transforms makes them of bytes",
                                       fmt::join(data.input, ", ")));
      }
      return model_of<MnistCnn>(data.input[0], data.input[1], data.input[2], data.outputs,
                                recipe.get(key + ".dropout", 0.5));
    }};

}  // namespace
}  // namespace lockstep::models
