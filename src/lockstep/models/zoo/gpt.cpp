// GPT-2 in small or large, and what came after it: positions learned or rotary, norms in front, GELU or
// SwiGLU, the head tied to the embedding or not. Names are those of the published weights.
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <fmt/format.h>
#include <torch/nn/modules/container/modulelist.h>

#include "lockstep/core/error.h"
#include "lockstep/models/module_model.h"
#include "lockstep/models/rotary.h"
#include "lockstep/parallel/layers/dropout.h"
#include "lockstep/parallel/layers/embedding.h"
#include "lockstep/parallel/layers/layer_norm.h"
#include "lockstep/parallel/layers/linear.h"

namespace lockstep::models {
namespace {

using parallel::Dropout;
using parallel::Embedding;
using parallel::InitialValues;
using parallel::LayerNorm;
using parallel::Linear;
using parallel::made;
using parallel::MadeInput;

struct GptShape {
  std::int64_t words, context, width, layers, heads;
  bool rotary;          // positions; else they are learned
  bool gated;           // SwiGLU; else GELU
  std::int64_t hidden;  // width between the two maps behind attention
  double dropout;
  bool tied;    // the head is the embedding
  bool sparse;  // so are the gradients of the embedding

  /// As GPT-2: what is added to the residual stream is smaller the more layers there are.
  InitialValues usual() const { return InitialValues::normal(0.02); }
  InitialValues residual() const { return InitialValues::normal(0.02 / std::sqrt(2.0 * static_cast<double>(layers))); }
};

Linear begun(Linear layer, const InitialValues& values) {
  layer->begin_with(layer->weight, values);
  if (layer->bias.defined()) layer->begin_with(layer->bias, InitialValues::constant(0));
  return layer;
}

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const GptShape& shape)
      : head_width_(shape.width / shape.heads),
        rotary_(shape.rotary),
        c_attn_(register_module(
            "c_attn", begun(Linear(shape.width, 3 * shape.width, /*bias=*/true, /*bands=*/3), shape.usual()))),
        c_proj_(register_module("c_proj", begun(Linear(shape.width, shape.width), shape.residual()))),
        dropout_(register_module("resid_dropout", Dropout(shape.dropout))) {}

  /// `past`: what these tokens come after, several of them only where nothing came before; nullptr: nothing does.
  at::Tensor forward(const MadeInput& input, Past::Attended* past) {  // [batch, time, width]
    const auto parts = c_attn_->of_made(input).chunk(3, -1);
    if (parts[0].size(-1) % head_width_ != 0) {
      fail(Fault::Usage,
           fmt::format("c_attn gives this rank {} columns of queries, which is no number of whole heads of "
                       "{}: set parallel.tensor to a divisor of model.heads",
                       parts[0].size(-1), head_width_));
    }
    const auto by_head = [this](const at::Tensor& part) {  // [batch, head, time, width / heads]
      return part.unflatten(-1, {-1, head_width_}).transpose(1, 2);
    };
    at::Tensor queries = by_head(parts[0]), keys = by_head(parts[1]), values = by_head(parts[2]);
    const std::int64_t before = past != nullptr ? past->tokens() : 0;
    if (rotary_) {
      const at::Tensor turns = rotary_turns(before, queries.size(2), head_width_, queries);
      queries = rotated(queries, turns);
      keys = rotated(keys, turns);
    }
    if (before > 0) {
      keys = at::cat({past->keys, keys}, 2);
      values = at::cat({past->values, values}, 2);
    }
    if (past != nullptr) *past = {keys, values};
    // What comes last looks at everything; libtorch would take it for what comes first.
    const at::Tensor mixed =
        at::scaled_dot_product_attention(queries, keys, values, std::nullopt, 0.0, /*is_causal=*/before == 0);
    return dropout_(c_proj_(mixed.transpose(1, 2).flatten(2)));
  }

 private:
  std::int64_t head_width_;
  bool rotary_;
  Linear c_attn_, c_proj_;
  Dropout dropout_;
};

class FeedForward : public torch::nn::Module {
 public:
  explicit FeedForward(const GptShape& shape)
      : gated_(shape.gated),
        c_fc_(register_module("c_fc", begun(inner(shape), shape.usual()))),
        c_proj_(register_module("c_proj", begun(Linear(shape.hidden, shape.width), shape.residual()))),
        dropout_(register_module("dropout", Dropout(shape.dropout))) {}

  at::Tensor forward(const MadeInput& values) {
    const auto activate = [gated = gated_](const at::Tensor& inner) { return activated(inner, gated); };
    return dropout_(c_proj_->of_made(made(activate, c_fc_->of_made(values))));
  }

 private:
  /// Gates and what they let through are two bands, so that a rank has both of the same columns.
  static Linear inner(const GptShape& shape) {
    const std::int64_t bands = shape.gated ? 2 : 1;
    return Linear(shape.width, bands * shape.hidden, /*bias=*/true, bands);
  }
  static at::Tensor activated(const at::Tensor& values, bool gated) {
    if (!gated) return at::gelu(values, "tanh");
    const auto bands = values.chunk(2, -1);
    return at::silu(bands[0]) * bands[1];
  }

  bool gated_;
  Linear c_fc_, c_proj_;
  Dropout dropout_;
};

class GptBlock : public torch::nn::Module {
 public:
  explicit GptBlock(const GptShape& shape)
      : ln_1_(register_module("ln_1", LayerNorm(shape.width))),
        attn_(register_module("attn", std::make_shared<Attention>(shape))),
        ln_2_(register_module("ln_2", LayerNorm(shape.width))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(shape))) {}

  at::Tensor forward(const at::Tensor& input, Past::Attended* past = nullptr) {
    const at::Tensor values = input + attn_->forward(made(ln_1_, input), past);
    return values + mlp_->forward(made(ln_2_, values));
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
      : shape_(shape),
        wte_(register_module("wte", Embedding(shape.words, shape.width, shape.sparse))),
        wpe_(shape.rotary ? Embedding(nullptr) : register_module("wpe", Embedding(shape.context, shape.width))),
        dropout_(register_module("drop", Dropout(shape.dropout))),
        blocks_(register_module("h", torch::nn::ModuleList())),
        ln_f_(register_module("ln_f", LayerNorm(shape.width))) {
    for (Embedding embedding : {wte_, wpe_}) {
      if (embedding) embedding->begin_with(embedding->weight, shape.usual());
    }
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) blocks_->push_back(std::make_shared<GptBlock>(shape));
    if (!shape.tied)
      lm_head_ = register_module("lm_head", begun(Linear(shape.width, shape.words, /*bias=*/false), shape.usual()));
  }

  parallel::Chain chain() {
    std::vector<std::string> embeddings{"wte", "drop"};
    if (wpe_) embeddings.emplace_back("wpe");
    parallel::Chain links{{"embedding", embeddings, [this](const auto& tokens) { return embedded(tokens, 0); }}};
    for (std::size_t layer = 0; layer < blocks_->size(); ++layer) {
      const std::string name = fmt::format("h.{}", layer);
      links.push_back({name, {name}, [block = blocks_->ptr<GptBlock>(layer)](const auto& values) {
                         return block->forward(values);
                       }});
    }
    links.push_back({"head", {"ln_f", shape_.tied ? "wte" : "lm_head"}, [this](const auto& values) {
                       return scores(ln_f_(values));
                     }});
    return links;
  }

  std::int64_t context() const noexcept { return shape_.context; }

  at::Tensor continued(const at::Tensor& tokens, Past& past) {
    if (wte_->over_time()) {
      fail(Fault::Usage,
           "a gpt that is cut along time reads whole windows: to go on with a text token by token, load its checkpoint "
           "without parallel.sequence");
    }
    past.layers.resize(blocks_->size());
    at::Tensor values = embedded(tokens, past.layers.front().tokens());
    for (std::size_t layer = 0; layer < blocks_->size(); ++layer) {
      values = blocks_->ptr<GptBlock>(layer)->forward(values, &past.layers[layer]);
    }
    return scores(ln_f_(values.select(1, -1)));
  }

  parallel::TensorPlan tensor_plan(int ranks) const {
    if (shape_.heads % ranks != 0) {
      fail(Fault::Usage,
           fmt::format("parallel.tensor = {0} does not divide the {1} heads of the model: set model.heads "
                       "to a multiple of {0}, or parallel.tensor to a divisor of {1}",
                       ranks, shape_.heads));
    }
    parallel::TensorPlan plan{{"h.*.attn.c_attn", "column"},
                              {"h.*.attn.c_proj", "row"},
                              {"h.*.mlp.c_fc", "column"},
                              {"h.*.mlp.c_proj", "row"},
                              {"wte", "vocabulary"}};
    if (!shape_.tied) plan["lm_head"] = "column";
    return plan;
  }

  parallel::TensorPlan sequence_plan(int ranks) const {
    auto plan = tensor_plan(ranks);
    for (auto& [pattern, how] : plan) how += "+time";
    plan["*ln_*"] = plan["drop"] = plan["*dropout"] = "time";
    if (wpe_) plan["wpe"] = "time";
    return plan;
  }

  /// Norms' outputs and the activation function's.
  static bool has_made_inputs() noexcept { return true; }

  parallel::ClassSplit class_split() const {
    if (shape_.tied) return {wte_->group(), wte_->first_word(), shape_.words};
    return {lm_head_->outputs_over(), lm_head_->first_output(), shape_.words};
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
  /// `tokens` [batch, time] from position `first` on.
  at::Tensor embedded(const at::Tensor& tokens, std::int64_t first) {
    const std::int64_t end = first + tokens.size(1);
    if (end > shape_.context) {
      fail(Fault::Usage,
           fmt::format("{} tokens are more than the model's context of {}; set model.context", end, shape_.context));
    }
    if (!wpe_) return dropout_(wte_(tokens));
    return dropout_(wte_(tokens) + wpe_(at::arange(first, end, tokens.options().dtype(at::kLong))));
  }

  at::Tensor scores(const at::Tensor& values) { return lm_head_ ? lm_head_(values) : wte_->scores(values); }

  GptShape shape_;
  Embedding wte_, wpe_;
  Dropout dropout_;
  torch::nn::ModuleList blocks_;
  LayerNorm ln_f_;
  Linear lm_head_{nullptr};
};

/// Whether a recipe has the second of two words; without it the first is meant.
bool is_second(const Config& recipe, const std::string& key, const char* first, const char* second) {
  const std::string word = recipe.get(key, first);
  if (word == first || word == second) return word == second;
  fail(Fault::Usage, fmt::format("{} = \"{}\": it is \"{}\" or \"{}\"", key, word, first, second));
}

/// SwiGLU has three matrices where GELU has two: two thirds of the width make as many weights, rounded up to whole
/// vectors of the processor (Shazeer, "GLU variants improve transformer", 2020).
std::int64_t usual_hidden(std::int64_t width, bool gated) {
  constexpr std::int64_t kVector = 16;
  return gated ? (8 * width + 3 * kVector - 1) / (3 * kVector) * kVector : 4 * width;
}

GptShape shape_of(const Config& recipe, const std::string& key, const ModelData& data) {
  const std::int64_t width = recipe.get(key + ".width", 256);
  const bool gated = is_second(recipe, key + ".activation", "gelu", "swiglu");
  const GptShape shape{data.outputs,
                       recipe.get(key + ".context", data.input.empty() ? std::int64_t{256} : data.input[0]),
                       width,
                       recipe.get(key + ".layers", 4),
                       recipe.get(key + ".heads", 4),
                       is_second(recipe, key + ".positions", "learned", "rotary"),
                       gated,
                       recipe.get(key + ".hidden", usual_hidden(width, gated)),
                       recipe.get(key + ".dropout", 0.0),
                       recipe.get(key + ".tied", true),
                       recipe.get(key + ".sparse_embedding", false)};
  if (shape.context < 1 || shape.width < 1 || shape.layers < 1 || shape.heads < 1 || shape.hidden < 1 ||
      shape.width % shape.heads != 0) {
    fail(Fault::Usage,
         fmt::format("{}: context {}, width {}, layers {}, heads {} and hidden {} are from 1 on, and heads divide "
                     "the width",
                     key, shape.context, shape.width, shape.layers, shape.heads, shape.hidden));
  }
  if (shape.rotary && shape.width / shape.heads % 2 != 0) {
    fail(Fault::Usage,
         fmt::format("{0}.positions = \"rotary\" turns pairs of numbers, and width {1} of {2} heads leaves "
                     "each {3}, which is odd: change {0}.width or {0}.heads",
                     key, shape.width, shape.heads, shape.width / shape.heads));
  }
  if (shape.sparse && shape.tied) {
    fail(Fault::Usage, key + ".sparse_embedding: the head, which is the embedding, has a dense gradient; set " + key +
                           ".tied = false");
  }
  return shape;
}

const ModelRegistry::Add registered{
    "gpt",
    "GPT-2 and its successors: context, width, layers, heads, hidden, positions, activation, dropout, tied, "
    "sparse_embedding",
    [](const Config& recipe, const std::string& key, const ModelData& data) {
      return model_of<Gpt>(shape_of(recipe, key, data));
    }};

}  // namespace
}  // namespace lockstep::models
