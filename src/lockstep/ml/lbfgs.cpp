#include "lockstep/ml/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <utility>

namespace lockstep::ml {
namespace {

using Values = std::vector<double>;

double dot(const Values& one, const Values& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) sum += one[i] * other[i];
  return sum;
}

/// one + factor · other.
Values sum(const Values& one, double factor, const Values& other) {
  Values result(one.size());
  for (std::size_t i = 0; i < one.size(); ++i) result[i] = one[i] + factor * other[i];
  return result;
}

/// The last steps and how the gradient changed along them, which stand for the inverse of the Hessian.
class Memory {
 public:
  explicit Memory(std::int64_t most) : most_(static_cast<std::size_t>(most)) {}

  void add(Values step, Values change) {
    const double curvature = dot(step, change);
    // Rounding may make it any number where the gradient hardly changes.
    if (!(curvature > std::numeric_limits<double>::epsilon() * dot(change, change))) return;
    if (pairs_.size() == most_) pairs_.pop_front();
    pairs_.push_back({std::move(step), std::move(change), 1 / curvature});
  }
  void forget() { pairs_.clear(); }
  bool empty() const { return pairs_.empty(); }

  /// Minus the inverse of the Hessian times the gradient, by the two loops of Nocedal.
  Values direction(const Values& gradient) const {
    Values way = gradient;
    std::vector<double> shares(pairs_.size());
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      shares[i] = pairs_[i].over_curvature * dot(pairs_[i].step, way);
      add_to(way, -shares[i], pairs_[i].change);
    }
    double scale = -1;
    if (!pairs_.empty()) {
      const Pair& last = pairs_.back();
      scale = -1 / (last.over_curvature * dot(last.change, last.change));
    }
    for (double& value : way) value *= scale;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const double share = pairs_[i].over_curvature * dot(pairs_[i].change, way);
      add_to(way, -shares[i] - share, pairs_[i].step);
    }
    return way;
  }

 private:
  struct Pair {
    Values step, change;
    double over_curvature;
  };
  static void add_to(Values& values, double factor, const Values& other) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += factor * other[i];
  }

  std::size_t most_;
  std::deque<Pair> pairs_;
};

/// A place along a line.
struct Place {
  double length = 0, value = 0, slope = 0;
};

/// Where the cubic through two places has its minimum, or their middle if that is none between them.
double between(const Place& one, const Place& other) {
  const double width = other.length - one.length, middle = one.length + 0.5 * width;
  const double a = one.slope + other.slope - 3 * (other.value - one.value) / width;
  const double square = a * a - one.slope * other.slope;
  if (!(square >= 0)) return middle;
  const double root = std::copysign(std::sqrt(square), width);
  const double found = other.length - width * (other.slope + root - a) / (other.slope - one.slope + 2 * root);
  // Not so near to an end that the search would hardly go on.
  constexpr double kMargin = 0.1;
  const double low = std::min(one.length, other.length), high = std::max(one.length, other.length);
  if (!std::isfinite(found)) return middle;
  return std::clamp(found, low + kMargin * (high - low), high - kMargin * (high - low));
}

/// Along one direction.
class LineSearch {
 public:
  LineSearch(const Slope& slope, const Values& from, double value_at_0, const Values& direction, double slope_at_0)
      : slope_(slope), from_(from), direction_(direction), start_{0, value_at_0, slope_at_0} {}

  /// Whether it found a place that is good enough; then x, value and gradient are of that.
  bool run(double first) {
    constexpr int kMost = 40;
    Place before = start_;
    double length = first;
    for (int i = 0; i < kMost; ++i) {
      const Place here = look(length);
      if (good(here)) return true;
      if (!std::isfinite(here.value) || !std::isfinite(here.slope)) {
        length = before.length + 0.1 * (length - before.length);
        continue;
      }
      if (too_high(here) || (i > 0 && here.value >= before.value && here.slope >= 0))
        return zoom(before, here, kMost - i);
      if (here.slope >= 0) return zoom(here, before, kMost - i);
      before = here;
      length *= 4;
    }
    return false;
  }

  Values x, gradient;
  double value = 0;

 private:
  static constexpr double kDecrease = 1e-4, kCurvature = 0.9;

  Place look(double length) {
    x = sum(from_, length, direction_);
    gradient.resize(x.size());
    value = slope_(x, gradient);
    return {length, value, dot(gradient, direction_)};
  }

  bool too_high(const Place& here) const {
    if (here.value <= start_.value + kDecrease * here.length * start_.slope) return false;
    // Where values differ by rounding alone the slope tells more (Hager and Zhang 2005).
    return !(here.value <= start_.value + rounding() && here.slope <= (2 * kDecrease - 1) * start_.slope);
  }
  double rounding() const { return 16 * std::numeric_limits<double>::epsilon() * std::abs(start_.value); }
  bool good(const Place& here) const { return !too_high(here) && std::abs(here.slope) <= -kCurvature * start_.slope; }

  /// `low` is the better end of what holds a good place, and its slope points to `high`.
  bool zoom(Place low, Place high, int most) {
    for (int i = 0; i < most; ++i) {
      // What is left to win is less than rounding.
      if (std::abs((high.length - low.length) * low.slope) <= 0.01 * rounding()) return false;
      const double length = between(low, high);
      if (length == low.length || length == high.length) return false;
      const Place here = look(length);
      if (good(here)) return true;
      if (!std::isfinite(here.value) || too_high(here) || here.value > low.value) {
        high = here;
        continue;
      }
      if (here.slope * (high.length - low.length) >= 0) high = low;
      low = here;
    }
    return false;
  }

  const Slope& slope_;
  const Values& from_;
  const Values& direction_;
  Place start_;
};

}  // namespace

Minimum lbfgs(const Slope& slope, std::vector<double> x, const LbfgsOptions& options) {
  Minimum found{.x = std::move(x)};
  Values gradient(found.x.size());
  found.value = slope(found.x, gradient);
  found.converged = options.done(0, found.value, gradient);
  Memory memory(options.memory);
  while (!found.converged && found.iterations < options.max_iter) {
    const Values direction = memory.direction(gradient);
    const double down = dot(direction, gradient);
    LineSearch line(slope, found.x, found.value, direction, down);
    // Nothing is known of the scale at first.
    const double first = memory.empty() ? std::min(1.0, 1 / std::sqrt(-down)) : 1;
    if (!(down < 0) || !line.run(first)) {
      found.converged = memory.empty();  // as far as numbers go
      memory.forget();
      continue;
    }
    memory.add(sum(line.x, -1, found.x), sum(line.gradient, -1, gradient));
    found.x = std::move(line.x);
    found.value = line.value;
    gradient = std::move(line.gradient);
    ++found.iterations;
    found.converged = options.done(found.iterations, found.value, gradient);
  }
  return found;
}

}  // namespace lockstep::ml
