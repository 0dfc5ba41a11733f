// Words to vectors, layers of LSTM, and a guess of the next word at every place.
#include <cmath>

#include <ATen/ops/empty.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/embedding.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

/// For cuDNN, which wants all weights of a layer in one piece and says so at every call: they lie in buckets.
class Silent final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// torch::nn::LSTM with batches first, whose dropout between layers is keyed.
class LstmLayers : public torch::nn::Module {
 public:
  LstmLayers(std::int64_t inputs, std::int64_t hidden, std::int64_t layers, double drop)
      : hidden_(hidden), dropouts_(register_module("dropouts", torch::nn::ModuleList())) {
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const std::int64_t size = layer == 0 ? inputs : hidden;
      auto& parameters = layers_.emplace_back();
      const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
        parameters.push_back(register_parameter(fmt::format("{}_l{}", name, layer), at::empty(shape)));
        torch::nn::init::uniform_(parameters.back(), -bound, bound);
      };
      add("weight_ih", {4 * hidden, size});
      add("weight_hh", {4 * hidden, hidden});
      add("bias_ih", {4 * hidden});
      add("bias_hh", {4 * hidden});
      if (layer > 0) dropouts_->push_back(parallel::Dropout(drop));  // each its own, as a mask is of the layer's name
    }
  }

  at::Tensor forward(const at::Tensor& input) {  // [batch, time, inputs]
    Silent silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    const at::Tensor start = at::zeros({1, input.size(0), hidden_}, input.options());
    at::Tensor values = input;
    // Under autocast too: oneDNN trains an LSTM in half on a few processors only.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCPU);
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (layer > 0) values = dropouts_->ptr<parallel::DropoutImpl>(layer - 1)->forward(values);
      values = std::get<0>(at::lstm(values, {start, start}, layers_[layer], true, 1, 0, is_training(), false, true));
    }
    return values;
  }

 private:
  std::int64_t hidden_;
  torch::nn::ModuleList dropouts_;  // in front of all layers but the first
  std::vector<std::vector<at::Tensor>> layers_;
};

class LstmModel : public torch::nn::Module {
 public:
  LstmModel(std::int64_t words, std::int64_t width, std::int64_t hidden, std::int64_t layers, double drop, bool sparse)
      : embedding_(register_module("embedding", parallel::Embedding(words, width, sparse))),
        dropout_(register_module("dropout", parallel::Dropout(drop))),
        lstm_(register_module("lstm", std::make_shared<LstmLayers>(width, hidden, layers, drop))),
        head_(register_module("head", parallel::Linear(hidden, words))) {}

  at::Tensor forward(const at::Tensor& tokens) { return head_(dropout_(lstm_->forward(embedding_(tokens)))); }

 private:
  parallel::Embedding embedding_;
  parallel::Dropout dropout_;
  std::shared_ptr<LstmLayers> lstm_;
  parallel::Linear head_;
};

const ModelRegistry::Add registered{
    "lstm", "LSTM that guesses the next token: width, hidden, layers, dropout, sparse_embedding",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      const std::int64_t width = recipe.get(key + ".width", 256), hidden = recipe.get(key + ".hidden", 512),
                         layers = recipe.get(key + ".layers", 2);
      if (width < 1 || hidden < 1 || layers < 1) {
        fail(Fault::Usage,
             fmt::format("{}: width {}, hidden {} and layers {} are from 1 on", key, width, hidden, layers));
      }
      return model_of<LstmModel>(data.outputs, width, hidden, layers, recipe.get(key + ".dropout", 0.0),
                                 recipe.get(key + ".sparse_embedding", false));
    }};

}  // namespace
}  // namespace lockstep::models
