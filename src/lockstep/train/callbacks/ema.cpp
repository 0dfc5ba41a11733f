// The weights averaged over recent steps are often better than the last ones.
#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/callback.h"

namespace lockstep::train {
namespace {

class Ema final : public Callback {
 public:
  Ema(const Config& recipe, const std::string& key)
      : decay_(recipe.get(key + ".decay", 0.999)), warm_up_(recipe.get(key + ".warmup", true)) {
    if (!(decay_ >= 0 && decay_ < 1)) {
      fail(Fault::Usage, fmt::format("{}.decay = {}: it is from 0 to below 1", key, decay_));
    }
  }
  std::string name() const override { return "ema"; }

  void attach(torch::nn::Module& model) override {
    weights_ = parallel::parameters_of(model);
    averages_.clear();
    for (const auto& [name, tensor] : weights_) averages_.push_back({name, tensor.detach().clone()});
  }

  void on_step(const StepReport& report) override {
    if (report.skipped) return;
    const at::NoGradGuard no_gradients;
    ++steps_;
    // At first it follows the weights closely, which are still far from where they go.
    const auto steps = static_cast<double>(steps_);
    const double decay = warm_up_ ? std::min(decay_, steps / (9 + steps)) : decay_;
    for (std::size_t i = 0; i < weights_.size(); ++i) averages_[i].tensor.lerp_(weights_[i].tensor, 1 - decay);
  }

  void before_evaluation() override { exchange(); }
  void after_evaluation() override { exchange(); }

  nlohmann::json state() const override { return {{"steps", steps_}}; }
  void set_state(const nlohmann::json& state) override { steps_ = state.at("steps").get<std::int64_t>(); }
  bool keeps_weights() const override { return true; }
  parallel::Parameters tensors() const override { return averages_; }

 private:
  /// Values, not tensors: weights lie in memory that ranks share.
  void exchange() {
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const at::Tensor kept = weights_[i].tensor.detach().clone();
      weights_[i].tensor.copy_(averages_[i].tensor);
      averages_[i].tensor.copy_(kept);
    }
  }

  double decay_;
  bool warm_up_;
  parallel::Parameters weights_;
  parallel::Parameters averages_;
  std::int64_t steps_ = 0;
};

const CallbackRegistry::Add registered{
    "ema", "Averages weights over steps, for evaluations and 'runs export --ema': decay, warmup",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Ema>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
