// Steps that would spoil the weights: a loss or a gradient that is no number, or far above
// what it was of late.
#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/callback.h"

namespace lockstep::train {
namespace {

/// The last values of something, and their median.
class Recent {
 public:
  void add(double value, std::size_t most) {
    values_.push_back(value);
    if (values_.size() > most) values_.pop_front();
  }
  double median() const {
    std::vector<double> sorted(values_.begin(), values_.end());
    const auto middle = sorted.begin() + std::ssize(sorted) / 2;
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
  }
  const std::deque<double>& values() const noexcept { return values_; }
  void set(std::deque<double> values) { values_ = std::move(values); }

 private:
  std::deque<double> values_;
};

class Guard final : public Callback {
 public:
  Guard(const Config& recipe, const std::string& key)
      : factor_(recipe.get(key + ".factor", 10.0)),
        window_(recipe.get(key + ".window", 100)),
        most_in_a_row_(recipe.get(key + ".most_in_a_row", 10)) {
    const std::string policy = recipe.get(key + ".on_spike", "stop");
    if (policy != "stop" && policy != "skip") {
      fail(Fault::Usage, fmt::format("{}.on_spike = \"{}\": it is \"stop\" or \"skip\"", key, policy));
    }
    skips_ = policy == "skip";
    if (!(factor_ > 1) || window_ < kLeast || most_in_a_row_ < 1) {
      fail(Fault::Usage, fmt::format("{}: factor {}, window {} and most_in_a_row {}: above 1, from {} on and from 1 on",
                                     key, factor_, window_, most_in_a_row_, kLeast));
    }
  }
  std::string name() const override { return "guard"; }
  bool looks_at_gradients() const override { return true; }

  Verdict judge(const StepFindings& findings) override {
    const std::string why = objection(findings);
    if (why.empty()) {
      losses_.add(findings.loss, static_cast<std::size_t>(window_));
      norms_.add(findings.gradient_norm, static_cast<std::size_t>(window_));
      in_a_row_ = 0;
      return {};
    }
    if (!skips_) return {Verdict::Do::Fail, why};
    if (++in_a_row_ <= most_in_a_row_) return {Verdict::Do::Skip, why};
    return {Verdict::Do::Fail, fmt::format("after {} skipped steps in a row {}", most_in_a_row_, why)};
  }

  nlohmann::json state() const override {
    return {{"losses", losses_.values()}, {"norms", norms_.values()}, {"in_a_row", in_a_row_}};
  }
  void set_state(const nlohmann::json& state) override {
    losses_.set(state.at("losses").get<std::deque<double>>());
    norms_.set(state.at("norms").get<std::deque<double>>());
    in_a_row_ = state.at("in_a_row").get<std::int64_t>();
  }

 private:
  /// Of fewer values a median says little.
  static constexpr std::int64_t kLeast = 20;

  /// "": there is none.
  std::string objection(const StepFindings& findings) const {
    if (!std::isfinite(findings.loss)) return "the loss is not finite";
    if (!std::isfinite(findings.gradient_norm)) return "the gradients are not finite";
    std::string why = spike("the loss", findings.loss, losses_);
    return why.empty() ? spike("the norm of the gradients", findings.gradient_norm, norms_) : why;
  }

  std::string spike(const char* what, double value, const Recent& recent) const {
    if (std::ssize(recent.values()) < kLeast) return "";
    const double usual = recent.median();
    if (!(usual > 0) || value <= factor_ * usual) return "";
    return fmt::format("{} is {:.4g}, more than {} times its median of {:.4g}", what, value, factor_, usual);
  }

  double factor_;
  std::int64_t window_;
  std::int64_t most_in_a_row_;
  bool skips_ = false;
  Recent losses_, norms_;
  std::int64_t in_a_row_ = 0;  // skipped
};

const CallbackRegistry::Add registered{
    "guard", "Refuses steps whose loss or gradient is no number or a spike: factor, window, on_spike, most_in_a_row",
    [](const Config& recipe, const std::string& key) { return std::make_unique<Guard>(recipe, key); }};

}  // namespace
}  // namespace lockstep::train
