#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/optimizer.h"

namespace lockstep::parallel {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const Config& recipe, const std::string& key)
      : momentum_(share_below_one(recipe, key + ".momentum", 0)),
        dampening_(share(recipe, key + ".dampening", 0)),
        nesterov_(recipe.get(key + ".nesterov", false)) {
    if (nesterov_ && (momentum_ <= 0 || dampening_ != 0)) {
      fail(Fault::Usage, key + ".nesterov needs a momentum above 0 and no dampening");
    }
  }

  std::vector<std::string> states() const override {
    return momentum_ == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum_buffer"};
  }

  bool sparse() const noexcept override { return momentum_ == 0; }

  void step(const ElementRun& run, const StepSettings& settings) const override {
    with_elements(run, [&]<class T>(T* weights, const T* gradients, const std::array<T*, kMostStates>& states) {
      const auto lr = static_cast<T>(settings.lr), decay = static_cast<T>(settings.weight_decay),
                 scale = static_cast<T>(settings.gradient_scale);
      if (momentum_ == 0) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          weights[i] -= lr * (scale * gradients[i] + decay * weights[i]);
        }
        return;
      }
      T* momentum = states[0];
      const auto keep = static_cast<T>(settings.step == 1 ? 0 : momentum_);
      const auto take = static_cast<T>(settings.step == 1 ? 1 : 1 - dampening_);
      // What the step takes: the momentum alone, or with Nesterov the gradient and what it will be.
      const auto of_gradient = static_cast<T>(nesterov_ ? 1 : 0);
      const auto of_momentum = static_cast<T>(nesterov_ ? momentum_ : 1);
      for (std::int64_t i = 0; i < run.count; ++i) {
        const T gradient = scale * gradients[i] + decay * weights[i];
        momentum[i] = keep * momentum[i] + take * gradient;
        weights[i] -= lr * (of_gradient * gradient + of_momentum * momentum[i]);
      }
    });
  }

 private:
  double momentum_;
  double dampening_;
  bool nesterov_;
};

const OptimizerRegistry::Add registered{
    "sgd", "Gradient descent, with momentum, dampening and nesterov",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Sgd>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
