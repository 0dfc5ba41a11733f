// lockstep/ml/algorithms/dbscan/vicinity.h
//
// DBSCAN among the points of one rank: which of them are near each other, found in one of
// two ways. Points are near if their squared distance, in float64, is at most eps².
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/ml/sweep.h"

namespace lockstep::ml::dbscan {

/// A rank's own points, and then those of others that may be near to one of them.
struct Points {
  std::int64_t columns = 0;
  std::vector<double> x;             // [points, columns]
  std::vector<std::int64_t> number;  // of the row in the table
  std::vector<double> weight;        // empty: all are 1
  std::int64_t own = 0;              // the first ones
  std::vector<std::uint8_t> core;    // whether there is enough weight near it

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(number.size()); }
  const double* at(std::int64_t point) const noexcept { return x.data() + point * columns; }
  double weight_of(std::int64_t point) const noexcept {
    return weight.empty() ? 1 : weight[static_cast<std::size_t>(point)];
  }
};

/// How far apart the values of near points in one column may be, with what rounding may take for near.
constexpr double farthest_in_column(double eps) noexcept { return eps * (1 + 1e-9); }

struct Reach {
  double eps;
  double min_samples;
  int threads;
  SweepObserver* observer = nullptr;  // of passes over points

  double squared() const noexcept { return eps * eps; }
};

/// Whether the weights near a point suffice. Sums of the same weights in another order differ in their last bits: where
/// that could decide, they are summed in the order of row numbers.
class WeightNear {
 public:
  WeightNear(const Points& points, const Reach& reach)
      : points_(points), least_(reach.min_samples), doubt_(points.weight.empty() ? 0 : 1e-9 * reach.min_samples) {}

  void clear() {
    sum_ = 0;
    near_.clear();
  }
  void add(std::int32_t point) {
    sum_ += points_.weight_of(point);
    if (doubt_ > 0) near_.push_back(point);
  }
  /// Whatever comes, it suffices.
  bool surely_enough() const noexcept { return sum_ >= least_ + doubt_; }
  /// Once all were added.
  bool enough();

 private:
  const Points& points_;
  double least_, doubt_, sum_ = 0;
  std::vector<std::int32_t> near_;
};

/// Each step is called once, in this order, and works on threads of its own.
class Vicinity {
 public:
  virtual ~Vicinity() = default;
  /// Sets `core` of the own points.
  virtual void find_core() = 0;
  /// Core points, own and others', that are connected by near ones of which one at least is own: the lowest row number
  /// of each point's set; -1 of points that are not core.
  virtual std::vector<std::int64_t> connect() = 0;
  /// `labels` of core points are known: each own point that is not core gets the lowest of the core points near it, if
  /// there is one.
  virtual void adopt(std::vector<std::int64_t>& labels) = 0;
};

/// By cells of a grid, of few columns; nothing if there are too many cells to count. The points must live as long.
std::unique_ptr<Vicinity> by_grid(Points& points, const Reach& reach);
/// By products with the points that are near in one column, of any number of columns.
std::unique_ptr<Vicinity> by_window(Points& points, const Reach& reach, std::int64_t column);

}  // namespace lockstep::ml::dbscan
