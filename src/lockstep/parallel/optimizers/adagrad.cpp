#include <cmath>

#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/optimizer.h"

namespace lockstep::parallel {
namespace {

class Adagrad final : public Optimizer {
 public:
  Adagrad(const Config& recipe, const std::string& key)
      : lr_decay_(not_negative(recipe, key + ".lr_decay", 0)), epsilon_(positive(recipe, key + ".eps", 1e-10)) {}

  std::vector<std::string> states() const override { return {"sum"}; }

  bool sparse() const noexcept override { return true; }

  void step(const ElementRun& run, const StepSettings& settings) const override {
    with_elements(run, [&]<class T>(T* weights, const T* gradients, const std::array<T*, kMostStates>& states) {
      T* sum = states[0];
      const auto lr = static_cast<T>(settings.lr / (1 + static_cast<double>(settings.step - 1) * lr_decay_));
      const auto scale = static_cast<T>(settings.gradient_scale), decay = static_cast<T>(settings.weight_decay),
                 epsilon = static_cast<T>(epsilon_);
      for (std::int64_t i = 0; i < run.count; ++i) {
        const T gradient = scale * gradients[i] + decay * weights[i];
        sum[i] += gradient * gradient;
        weights[i] -= lr * gradient / (std::sqrt(sum[i]) + epsilon);
      }
    });
  }

 private:
  double lr_decay_;
  double epsilon_;
};

const OptimizerRegistry::Add registered{
    "adagrad", "Steps divided by the root of all squared gradients; lr_decay, eps",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Adagrad>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
