// lockstep/train/best_steps.h
//
// Which steps were the best, by one figure of the validations that followed them. A figure
// that is no number is never best; of equal ones the earlier is better.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/train/observer.h"

namespace lockstep::train {

class BestSteps {
 public:
  explicit BestSteps(std::string figure) : figure_(std::move(figure)) {}

  /// Fault::Usage if it has no such figure.
  void judge(std::int64_t step, const Figures& figures);
  /// Validations of before a restart; those without that figure count for nothing.
  void recall(const std::vector<Evaluation>& evaluations);
  void forget(std::int64_t step) { costs_.erase(step); }
  /// `steps` are in ascending order.
  void forget_all_but(const std::vector<std::int64_t>& steps);

  /// At most `count`, the best first.
  std::vector<std::int64_t> best(std::int64_t count) const;
  /// Only of those that `steps`, in ascending order, names.
  std::vector<std::int64_t> best(std::int64_t count, const std::vector<std::int64_t>& steps) const;

 private:
  std::string figure_;
  std::map<std::int64_t, double> costs_;  // the lowest is best
};

}  // namespace lockstep::train
