// GPT-2 in small or large: learned positions, norms in front, GELU, the head tied to the
// embedding or not. Names are those of the published weights.
#include <cmath>

#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

using parallel::Dropout;
using parallel::Linear;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;

struct GptShape {
  std::int64_t words, context, width, layers, heads;
  double dropout;
  bool tied;    // the head is the embedding
  bool sparse;  // so are the gradients of the embedding
};

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const GptShape& shape)
      : heads_(shape.heads),
        c_attn_(register_module("c_attn", Linear(shape.width, 3 * shape.width))),
        c_proj_(register_module("c_proj", Linear(shape.width, shape.width))),
        dropout_(register_module("resid_dropout", Dropout(shape.dropout))) {}

  at::Tensor forward(const at::Tensor& values) {  // [batch, time, width]
    const auto parts = c_attn_(values).chunk(3, -1);
    const auto by_head = [this](const at::Tensor& part) {  // [batch, head, time, width / heads]
      return part.unflatten(-1, {heads_, -1}).transpose(1, 2);
    };
    const at::Tensor mixed = at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]),
                                                              std::nullopt, 0.0, /*is_causal=*/true);
    return dropout_(c_proj_(mixed.transpose(1, 2).flatten(2)));
  }

 private:
  std::int64_t heads_;
  Linear c_attn_, c_proj_;
  Dropout dropout_;
};

class FeedForward : public torch::nn::Module {
 public:
  explicit FeedForward(const GptShape& shape)
      : c_fc_(register_module("c_fc", Linear(shape.width, 4 * shape.width))),
        c_proj_(register_module("c_proj", Linear(4 * shape.width, shape.width))),
        dropout_(register_module("dropout", Dropout(shape.dropout))) {}

  at::Tensor forward(const at::Tensor& values) { return dropout_(c_proj_(at::gelu(c_fc_(values), "tanh"))); }

 private:
  Linear c_fc_, c_proj_;
  Dropout dropout_;
};

class GptBlock : public torch::nn::Module {
 public:
  explicit GptBlock(const GptShape& shape)
      : ln_1_(register_module("ln_1", LayerNorm(LayerNormOptions({shape.width})))),
        attn_(register_module("attn", std::make_shared<Attention>(shape))),
        ln_2_(register_module("ln_2", LayerNorm(LayerNormOptions({shape.width})))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(shape))) {}

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor values = input + attn_->forward(ln_1_(input));
    return values + mlp_->forward(ln_2_(values));
  }

 private:
  LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  LayerNorm ln_2_;
  std::shared_ptr<FeedForward> mlp_;
};

class Gpt : public torch::nn::Module {
 public:
  explicit Gpt(const GptShape& shape)
      : context_(shape.context),
        wte_(register_module(
            "wte", torch::nn::Embedding(torch::nn::EmbeddingOptions(shape.words, shape.width).sparse(shape.sparse)))),
        wpe_(register_module("wpe", torch::nn::Embedding(shape.context, shape.width))),
        dropout_(register_module("drop", Dropout(shape.dropout))),
        blocks_(register_module("h", torch::nn::ModuleList())),
        ln_f_(register_module("ln_f", LayerNorm(LayerNormOptions({shape.width})))) {
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) blocks_->push_back(std::make_shared<GptBlock>(shape));
    if (!shape.tied) lm_head_ = register_module("lm_head", Linear(shape.width, shape.words, /*bias=*/false));
    initialise(shape.layers);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const std::int64_t time = tokens.size(1);
    if (time > context_) {
      fail(Fault::Usage,
           fmt::format("{} tokens are more than the model's context of {}; set model.context", time, context_));
    }
    at::Tensor values = dropout_(wte_(tokens) + wpe_(at::arange(time, tokens.options().dtype(at::kLong))));
    for (const auto& block : *blocks_) values = block->as<GptBlock>()->forward(values);
    // Not the Linear of ours: the embedding has a part in this weight's gradient.
    return lm_head_ ? lm_head_(ln_f_(values)) : at::linear(ln_f_(values), wte_->weight);
  }

  /// OpenAI's weights have the matrices of linear layers the other way round, which the first one's shape tells.
  static at::Tensor from_published(const data::Safetensors& file, const std::string& prefix, const std::string& name) {
    at::Tensor values = file.read(prefix + name);
    const bool matrix = values.dim() == 2 && name.find(".c_") != std::string::npos;
    if (!matrix) return values;
    const std::string one = prefix + "h.0.attn.c_attn.weight";
    if (!file.contains(one)) return values;  // the differences will be listed
    const auto& first = file.shape(one);
    return first.size() == 2 && first[0] < first[1] ? values.t().contiguous() : values;
  }

  /// The causal masks of OpenAI's files.
  static bool does_without(const std::string& name) {
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  }

 private:
  /// As GPT-2: what is added to the residual stream is smaller the more layers there are.
  void initialise(std::int64_t layers) {
    for (const auto& named : named_parameters()) {
      const std::string& name = named.key();
      if (name.ends_with("bias")) {
        torch::nn::init::zeros_(named.value());
      } else if (name.find("ln_") == std::string::npos) {
        const double residual =
            name.find("c_proj") == std::string::npos ? 1 : std::sqrt(2.0 * static_cast<double>(layers));
        torch::nn::init::normal_(named.value(), 0, 0.02 / residual);
      }
    }
  }

  std::int64_t context_;
  torch::nn::Embedding wte_, wpe_;
  Dropout dropout_;
  torch::nn::ModuleList blocks_;
  LayerNorm ln_f_;
  Linear lm_head_{nullptr};
};

const ModelRegistry::Add registered{
    "gpt", "GPT-2: context, width, layers, heads, dropout, tied, sparse_embedding",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      const GptShape shape{data.outputs,
                           recipe.get(key + ".context", data.input.empty() ? std::int64_t{256} : data.input[0]),
                           recipe.get(key + ".width", 256),
                           recipe.get(key + ".layers", 4),
                           recipe.get(key + ".heads", 4),
                           recipe.get(key + ".dropout", 0.0),
                           recipe.get(key + ".tied", true),
                           recipe.get(key + ".sparse_embedding", false)};
      if (shape.context < 1 || shape.width < 1 || shape.layers < 1 || shape.heads < 1 ||
          shape.width % shape.heads != 0) {
        fail(Fault::Usage,
             fmt::format("{}: context {}, width {}, layers {} and heads {} are from 1 on, and heads divide "
                         "the width",
                         key, shape.context, shape.width, shape.layers, shape.heads));
      }
      if (shape.sparse && shape.tied) {
        fail(Fault::Usage, key + ".sparse_embedding: the head, which is the embedding, has a dense gradient; set " +
                               key + ".tied = false");
      }
      return model_of<Gpt>(shape);
    }};

}  // namespace
}  // namespace lockstep::models
