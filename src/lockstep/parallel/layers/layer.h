// lockstep/parallel/layers/layer.h
//
// A Layer is a torch::nn::Module that says of each of its parameters how large it is, how it
// begins and which part of it this rank holds. So a layer can be split over ranks by one word
// ("column", "row", …) before any memory of its parameters is touched, while the model around it
// stays as it was written for one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/initial_values.h"
#include "lockstep/parallel/parameter_part.h"

namespace lockstep::parallel {

enum class Fill : std::uint8_t { All, AllButTrained };

class Layer : public torch::nn::Module {
 public:
  struct Declared {
    std::string name;  // in this layer
    at::Tensor tensor;
    ParameterPart part;
    InitialValues begins;
    bool filled = false;
    /// Backward of this rank brings a share of its gradient, as it sees a slice of time (time_slices.h): the sum is
    /// over the ranks of split().
    bool partial = false;
  };
  const std::vector<Declared>& declared() const noexcept { return declared_; }

  /// A parameter begins otherwise than is usual for this layer.
  void begin_with(const at::Tensor& parameter, const InitialValues& values);
  /// Fills what is not filled yet; `name` is that of the layer in its model.
  void fill(const std::string& name, std::uint64_t seed, Fill what);

  /// Over the ranks of `group`, which must outlive the layer. What `how` may be stands in each layer's header;
  /// Fault::Usage, naming what there is, if it is something else. All ranks of the group split alike.
  void split(const std::string& how, comm::Communicator& group);
  bool is_split() const noexcept { return !split_.empty(); }

 protected:
  at::Tensor declare(const std::string& name, const std::vector<std::int64_t>& shape, const InitialValues& begins);
  at::Tensor declare_buffer(const std::string& name, const std::vector<std::int64_t>& shape, double value);
  /// From now on this rank holds a part; values that are there already are kept.
  void cut(const at::Tensor& parameter, const Cut& cut);
  /// See Declared::partial.
  void gets_partial_gradient(const at::Tensor& parameter) { declared_[place_of(parameter)].partial = true; }
  const ParameterPart& part_of(const at::Tensor& parameter) const;

  /// What split() may ask for.
  virtual std::vector<std::string> ways() const { return {}; }
  virtual void split_by(const std::string& /*how*/) {}
  /// Of split(); nullptr: the layer is whole.
  comm::Communicator* ranks() const noexcept { return ranks_; }

 private:
  std::size_t place_of(const at::Tensor& parameter) const;
  void add(const std::string& name, const at::Tensor& tensor, const InitialValues& begins);

  std::vector<Declared> declared_;
  comm::Communicator* ranks_ = nullptr;
  std::string split_;  // how; "": nobody has said
};

/// While it lives, layers that the calling thread makes leave their parameters untouched, for fill_layers().
class DeferredFilling {
 public:
  DeferredFilling() noexcept;
  ~DeferredFilling();
  DeferredFilling(const DeferredFilling&) = delete;
  DeferredFilling& operator=(const DeferredFilling&) = delete;
};

/// Fills what the layers of `model` have declared and nobody has filled.
void fill_layers(torch::nn::Module& model, std::uint64_t seed, Fill what = Fill::All);
/// Calls `look` with all that layers have declared, by name in the model.
void for_each_declared(const torch::nn::Module& model,
                       const std::function<void(const std::string& name, const Layer::Declared&)>& look);
/// By name in the model, of parameters and buffers that layers have declared; others are whole.
std::map<std::string, ParameterPart> parts_of(const torch::nn::Module& model);
/// By name in the model, see Layer::Declared::partial.
std::set<std::string> partial_parameters(const torch::nn::Module& model);

}  // namespace lockstep::parallel
