#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/callback.h"

namespace lockstep::train {
namespace {

class EarlyStopping final : public Callback {
 public:
  EarlyStopping(const Config& recipe, const std::string& key)
      : key_(key),
        figure_(recipe.get(key + ".metric", "loss")),
        patience_(recipe.get(key + ".patience", 3)),
        min_delta_(recipe.get(key + ".min_delta", 0.0)) {
    if (patience_ < 1 || !(min_delta_ >= 0)) {
      fail(Fault::Usage,
           fmt::format("{}: a patience of {} validations and a min_delta of {}: the one is from 1 on, the "
                       "other from 0 on",
                       key, patience_, min_delta_));
    }
  }
  std::string name() const override { return "early_stopping"; }

  void on_start(const RunInfo& info) override {
    if (!info.validates) fail(Fault::Usage, key_ + " looks at validations: set data.validation");
    check_figure(figure_, info.figures, key_ + ".metric");
  }

  void on_evaluation(const Evaluation& evaluation) override {
    if (evaluation.of != "validation") return;
    const double value = figure_named(figure_, evaluation.figures, key_ + ".metric");
    const double gain = !best_ ? 0 : is_better_low(figure_) ? *best_ - value : value - *best_;
    // A figure that is no number is no gain, not even as the first.
    if (!std::isnan(value) && (!best_ || gain > min_delta_)) {
      best_ = value;
      waited_ = 0;
    } else {
      ++waited_;
    }
  }

  std::string wants_end() const override {
    if (waited_ < patience_) return "";
    if (!best_) return fmt::format("{} validations whose {} is no number", waited_, figure_);
    return fmt::format("{} validations without a better {} than {}", waited_, figure_, *best_);
  }

  nlohmann::json state() const override {
    return {{"best", best_ ? nlohmann::json(*best_) : nlohmann::json()}, {"waited", waited_}};
  }
  void set_state(const nlohmann::json& state) override {
    if (!state.at("best").is_null()) best_ = state.at("best").get<double>();
    waited_ = state.at("waited").get<std::int64_t>();
  }

 private:
  std::string key_;
  std::string figure_;
  std::int64_t patience_;
  double min_delta_;
  std::optional<double> best_;
  std::int64_t waited_ = 0;  // validations
};

const CallbackRegistry::Add registered{
    "early_stopping", "Ends a run whose validations get no better: metric, patience, min_delta",
    [](const Config& recipe, const std::string& key) { return std::make_unique<EarlyStopping>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
