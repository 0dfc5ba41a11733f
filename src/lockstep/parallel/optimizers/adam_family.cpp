#include "lockstep/parallel/optimizers/adam_family.h"

#include <array>
#include <cmath>

#include "lockstep/parallel/checked_number.h"

namespace lockstep::parallel {

AdamFamily::AdamFamily(const Config& recipe, const std::string& key, Decay decay)
    : betas_(Betas::read(recipe, key)), epsilon_(positive(recipe, key + ".eps", 1e-8)), decay_(decay) {}

void AdamFamily::step(const ElementRun& run, const StepSettings& settings) const {
  const double mean_share = Betas::share(betas_.mean, settings.step);
  const double square_share = Betas::share(betas_.square, settings.step);
  with_elements(run, [&]<class T>(T* weights, const T* gradients, const std::array<T*, kMostStates>& states) {
    T* mean = states[0];
    T* square = states[1];
    const bool of_weight = decay_ == Decay::OfWeight;
    const auto scale = static_cast<T>(settings.gradient_scale);
    const auto keep = static_cast<T>(of_weight ? 1 - settings.lr * settings.weight_decay : 1);
    const auto decay = static_cast<T>(of_weight ? 0 : settings.weight_decay);
    const auto keep_mean = static_cast<T>(betas_.mean), take_mean = static_cast<T>(1 - betas_.mean);
    const auto keep_square = static_cast<T>(betas_.square), take_square = static_cast<T>(1 - betas_.square);
    const auto size = static_cast<T>(settings.lr / mean_share);
    const auto root_share = static_cast<T>(1 / std::sqrt(square_share)), epsilon = static_cast<T>(epsilon_);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const T gradient = scale * gradients[i] + decay * weights[i];
      mean[i] = keep_mean * mean[i] + take_mean * gradient;
      square[i] = keep_square * square[i] + take_square * gradient * gradient;
      weights[i] = keep * weights[i] - size * mean[i] / (std::sqrt(square[i]) * root_share + epsilon);
    }
  });
}

}  // namespace lockstep::parallel
