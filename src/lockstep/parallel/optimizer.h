// lockstep/parallel/optimizer.h
//
// An Optimizer turns gradients into new weights, one run of elements after another. It
// keeps no state of its own: the numbers it remembers per weight lie beside the weights,
// in memory of whoever calls it, so that they can be sharded, saved and moved. A new one
// is one new file in optimizers/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/core/registry.h"

namespace lockstep::parallel {

inline constexpr std::size_t kMostStates = 2;

/// Consecutive elements of one type.
struct ElementRun {
  c10::ScalarType type;
  void* weights;
  const void* gradients;
  std::array<void*, kMostStates> states;  // in the order of Optimizer::states()
  std::int64_t count;
};

struct StepSettings {
  std::int64_t step = 1;  // the first is 1
  double lr = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // gradients are multiplied by it first
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// What is remembered of each weight, as PyTorch calls it. Zeros before the first step.
  virtual std::vector<std::string> states() const = 0;
  /// Whether a run may be any part of a parameter, or of several. Else it is one parameter, whole.
  virtual bool elementwise() const noexcept { return true; }
  /// Whether weights without a gradient may be passed over, and what is remembered of them be left as it is.
  virtual bool sparse() const noexcept { return false; }
  virtual void step(const ElementRun& run, const StepSettings& settings) const = 0;
  /// As recipes call it; "" of one that no recipe has made.
  std::string name;
};

/// The table `key` of the recipe holds its settings, of which it reads what is its own.
using OptimizerRegistry = Registry<std::unique_ptr<Optimizer>(const Config& recipe, const std::string& key)>;

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const Config& recipe, const std::string& key);

/// Calls `work` with pointers of the run's type: work(weights, gradients, states).
template <class Work>
void with_elements(const ElementRun& run, const Work& work) {
  const auto call = [&]<class Element>(Element*) {
    std::array<Element*, kMostStates> states{};
    for (std::size_t number = 0; number < kMostStates; ++number) {
      states[number] = static_cast<Element*>(run.states[number]);
    }
    work(static_cast<Element*>(run.weights), static_cast<const Element*>(run.gradients), states);
  };
  if (run.type == c10::ScalarType::Float) {
    call(static_cast<float*>(nullptr));
  } else if (run.type == c10::ScalarType::Double) {
    call(static_cast<double*>(nullptr));
  } else {
    fail(Fault::Usage,
         "weights that are trained are of float32 or float64; with precision = \"bf16\" or \"fp16\" they "
         "stay so and only the layers compute in less");
  }
}

}  // namespace lockstep::parallel
