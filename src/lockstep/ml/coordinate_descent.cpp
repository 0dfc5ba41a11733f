#include "lockstep/ml/coordinate_descent.h"

#include <algorithm>
#include <cmath>

namespace lockstep::ml {
namespace {

double dot(const double* one, const double* other, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += one[i] * other[i];
  return sum;
}

class Descending {
 public:
  Descending(std::vector<double>& coef, const PenalisedSquares& objective)
      : coef_(coef), of_(objective), predicted_(coef.size()) {
    for (std::size_t column = 0; column < coef.size(); ++column) {
      if (square(column) == 0) coef[column] = 0;
      if (coef[column] != 0) add(column, coef[column]);
    }
  }

  /// Every coefficient once; the largest change, relative to the largest coefficient.
  double pass() {
    double largest = 0, change = 0;
    for (std::size_t column = 0; column < coef_.size(); ++column) {
      if (square(column) == 0) continue;
      const double before = coef_[column];
      const double pull = of_.with_target[column] - predicted_[column] + before * square(column);
      const double excess = std::max(std::abs(pull) - of_.l1, 0.0);
      coef_[column] = of_.positive && pull < 0 ? 0 : std::copysign(excess, pull) / (square(column) + of_.l2);
      if (coef_[column] != before) add(column, coef_[column] - before);
      change = std::max(change, std::abs(coef_[column] - before));
      largest = std::max(largest, std::abs(coef_[column]));
    }
    return largest == 0 ? 0 : change / largest;
  }

  /// By how much the objective is above the least at most: the dual of what is left of the targets, scaled to where it
  /// is feasible. Without l1 that of ridge regression, without a penalty the squared gradient.
  double gap() const {
    const std::int64_t columns = of_.columns;
    const double* coef = coef_.data();
    const double explained = dot(coef, of_.with_target, columns);
    const double left = of_.target + dot(coef, predicted_.data(), columns) - 2 * explained;
    const double squares = dot(coef, coef, columns);
    const double left_with_target = of_.target - explained;
    double sizes = 0, steepest = 0, steepness = 0;
    for (std::size_t column = 0; column < coef_.size(); ++column) {
      const double pull = of_.with_target[column] - predicted_[column];
      steepness += pull * pull;
      const double penalised = pull - of_.l2 * coef_[column];
      steepest = std::max(steepest, of_.positive ? penalised : std::abs(penalised));
      sizes += std::abs(coef_[column]);
    }
    if (of_.l1 == 0) {
      if (of_.l2 == 0) return steepness;
      return left + 0.5 * of_.l2 * squares - left_with_target + steepness / (2 * of_.l2);
    }
    const double scale = steepest > of_.l1 ? of_.l1 / steepest : 1;
    const double penalised = left + of_.l2 * squares;
    return 0.5 * penalised + of_.l1 * sizes + 0.5 * scale * scale * penalised - scale * left_with_target;
  }

 private:
  double square(std::size_t column) const {
    return of_.products[static_cast<std::int64_t>(column) * (of_.columns + 1)];
  }
  /// Coefficients of other columns feel the change through the products.
  void add(std::size_t column, double change) {
    const double* products = of_.products + static_cast<std::int64_t>(column) * of_.columns;
    for (std::size_t other = 0; other < predicted_.size(); ++other) predicted_[other] += change * products[other];
  }

  std::vector<double>& coef_;
  const PenalisedSquares& of_;
  std::vector<double> predicted_;  // products · coef
};

}  // namespace

Descent descend_(std::vector<double>& coef, const PenalisedSquares& objective, const DescentOptions& options) {
  Descending descending(coef, objective);
  const double enough = options.tol * objective.target;
  Descent result{.gap = descending.gap()};
  result.converged = result.gap >= 0 && result.gap <= enough;
  while (!result.converged && result.iterations < options.max_iter) {
    const double change = descending.pass();
    ++result.iterations;
    if (change > options.tol && result.iterations < options.max_iter) continue;
    result.gap = descending.gap();
    // At the least value that rounding allows nothing moves any more.
    result.converged = result.gap <= enough || change == 0;
  }
  return result;
}

}  // namespace lockstep::ml
