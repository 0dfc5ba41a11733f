#include <cmath>

#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/optimizer.h"

namespace lockstep::parallel {
namespace {

class RmsProp final : public Optimizer {
 public:
  RmsProp(const Config& recipe, const std::string& key)
      : alpha_(share_below_one(recipe, key + ".alpha", 0.99)),
        epsilon_(positive(recipe, key + ".eps", 1e-8)),
        momentum_(share_below_one(recipe, key + ".momentum", 0)) {}

  std::vector<std::string> states() const override {
    return momentum_ == 0 ? std::vector<std::string>{"square_avg"}
                          : std::vector<std::string>{"square_avg", "momentum_buffer"};
  }

  void step(const ElementRun& run, const StepSettings& settings) const override {
    with_elements(run, [&]<class T>(T* weights, const T* gradients, const std::array<T*, kMostStates>& states) {
      T* square = states[0];
      T* momentum = states[1];
      const auto lr = static_cast<T>(settings.lr), scale = static_cast<T>(settings.gradient_scale),
                 decay = static_cast<T>(settings.weight_decay), epsilon = static_cast<T>(epsilon_),
                 keep = static_cast<T>(alpha_), take = static_cast<T>(1 - alpha_),
                 keep_momentum = static_cast<T>(momentum_);
      for (std::int64_t i = 0; i < run.count; ++i) {
        const T gradient = scale * gradients[i] + decay * weights[i];
        square[i] = keep * square[i] + take * gradient * gradient;
        T change = gradient / (std::sqrt(square[i]) + epsilon);
        if (momentum != nullptr) change = momentum[i] = keep_momentum * momentum[i] + change;
        weights[i] -= lr * change;
      }
    });
  }

 private:
  double alpha_;
  double epsilon_;
  double momentum_;
};

const OptimizerRegistry::Add registered{
    "rmsprop", "Steps divided by the root of recent squared gradients; alpha, eps, momentum",
    [](const Config& recipe, const std::string& key) { return std::make_unique<RmsProp>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
