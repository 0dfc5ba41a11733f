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
#include "lockstep/models/past.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/cross_entropy.h"
#include "lockstep/parallel/tensor_parallel.h"

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
  /// What forward does, link by link.
  virtual const parallel::Chain& chain() const noexcept = 0;
  /// How its layers are split over `ranks` ranks unless a recipe says otherwise; empty if they are not. Fault::Usage if
  /// they cannot be split over so many.
  virtual parallel::TensorPlan tensor_plan(int ranks) const = 0;
  /// The same where activations between split layers are cut along time, too (parallel/time_slices.h).
  virtual parallel::TensorPlan sequence_plan(int ranks) const = 0;
  /// Whether some of its layers take inputs that can be made again (parallel/layers/made_input.h).
  virtual bool has_made_inputs() const noexcept = 0;
  /// Of the outputs.
  virtual parallel::ClassSplit class_split() const = 0;
  /// How many tokens forward takes at most; 0: any number.
  virtual std::int64_t context() const noexcept = 0;
  /// Of tokens [batch, time] that come after those of `past`, and become part of it: what forward of all of them gives
  /// for the last one, [batch, outputs]. Several tokens at a time only where nothing came before. Without gradients.
  virtual at::Tensor continued(const at::Tensor& tokens, Past& past) = 0;
  /// The tensor prefix + name of a file, as this model keeps it: files of others may have their own conventions.
  virtual at::Tensor from_published(const data::Safetensors& file, const std::string& prefix,
                                    const std::string& name) const = 0;
  /// Whether files of others hold a tensor of this name that is no weight, such as a mask, and so is passed over.
  virtual bool does_without(const std::string& name) const = 0;

  /// The first links of the stages of a pipeline, and the number of links at the end.
  std::vector<std::size_t> cuts;
  /// Of all its parameters, also of those that other stages have.
  std::vector<std::string> parameter_names;
};

/// What the data says of a model, where the recipe does not.
struct ModelData {
  std::vector<std::int64_t> input;  // shape of one sample
  std::int64_t outputs = 0;         // classes, or words
};

/// `key` names the table of the recipe that it reads.
using ModelRegistry =
    Registry<std::unique_ptr<Model>(const Config& recipe, const std::string& key, const ModelData& data)>;

/// What becomes of a model before it has weights.
struct ModelCut {
  comm::Communicator* tensor = nullptr;   // over which layers are split; it outlives the model
  parallel::TensorPlan tensor_plan = {};  // empty: the model's own
  bool sequence = false;                  // the model's own that cuts activations along time, too
  int stage = 0, stages = 1, chunks = 1;  // of a pipeline: only what this stage uses is there
  bool filled = true;                     // else parameters of our layers have no values yet, and no memory is touched
  std::vector<std::size_t> cuts = {};     // the first links of the stages; empty: they are balanced
  std::vector<double> costs = {};         // of links, by which they are; empty: by the sizes of their matrices
};

/// Initial weights are a function of `seed` alone.
std::unique_ptr<Model> make_model(const std::string& name, const Config& recipe, const std::string& key,
                                  const ModelData& data, std::uint64_t seed, const ModelCut& cut = {});

/// Of a model that was not filled: what is not trained gets its values.
void fill_frozen(Model& model, std::uint64_t seed);

}  // namespace lockstep::models
