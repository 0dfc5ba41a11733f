#include <cmath>

#include "lockstep/parallel/checked_number.h"
#include "lockstep/parallel/optimizer.h"
#include "lockstep/parallel/optimizers/betas.h"

namespace lockstep::parallel {
namespace {

/// You et al., "Large batch optimization for deep learning" (2020), with bias correction: AdamW whose step
/// is, per parameter, as long as the parameter's norm.
class Lamb final : public Optimizer {
 public:
  Lamb(const Config& recipe, const std::string& key)
      : betas_(Betas::read(recipe, key)), epsilon_(positive(recipe, key + ".eps", 1e-6)) {}

  std::vector<std::string> states() const override { return {"exp_avg", "exp_avg_sq"}; }
  bool elementwise() const noexcept override { return false; }

  void step(const ElementRun& run, const StepSettings& settings) const override {
    const double mean_share = Betas::share(betas_.mean, settings.step);
    const double square_share = Betas::share(betas_.square, settings.step);
    with_elements(run, [&]<class T>(T* weights, const T* gradients, const std::array<T*, kMostStates>& states) {
      T* mean = states[0];
      T* square = states[1];
      const auto scale = static_cast<T>(settings.gradient_scale), decay = static_cast<T>(settings.weight_decay);
      const auto keep_mean = static_cast<T>(betas_.mean), take_mean = static_cast<T>(1 - betas_.mean);
      const auto keep_square = static_cast<T>(betas_.square), take_square = static_cast<T>(1 - betas_.square);
      const auto of_mean = static_cast<T>(1 / mean_share), of_square = static_cast<T>(1 / square_share),
                 epsilon = static_cast<T>(epsilon_);
      const auto direction = [&](std::int64_t i) {
        return mean[i] * of_mean / (std::sqrt(square[i] * of_square) + epsilon) + decay * weights[i];
      };
      double weight_norm = 0, step_norm = 0;
      for (std::int64_t i = 0; i < run.count; ++i) {
        const T gradient = scale * gradients[i];
        mean[i] = keep_mean * mean[i] + take_mean * gradient;
        square[i] = keep_square * square[i] + take_square * gradient * gradient;
        const double change = direction(i), weight = weights[i];
        weight_norm += weight * weight;
        step_norm += change * change;
      }
      const double trust = weight_norm > 0 && step_norm > 0 ? std::sqrt(weight_norm / step_norm) : 1;
      const auto length = static_cast<T>(settings.lr * trust);
      for (std::int64_t i = 0; i < run.count; ++i) weights[i] -= length * direction(i);
    });
  }

 private:
  Betas betas_;
  double epsilon_;
};

const OptimizerRegistry::Add registered{
    "lamb", "AdamW with steps as long as each parameter's norm allows, for large batches; betas, eps",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Lamb>(recipe, key); }};

}  // namespace
}  // namespace lockstep::parallel
