#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/core/on_threads.h"
#include "lockstep/ml/algorithms/dbscan/vicinity.h"
#include "lockstep/ml/kernels/near.h"
#include "lockstep/ml/squared_distance.h"
#include "lockstep/ml/union_find.h"

namespace lockstep::ml::dbscan {
namespace {

constexpr std::int64_t kQueries = 256, kRows = 128;

/// Some points in the order of one column.
class Sorted {
 public:
  template <class Wanted>
  Sorted(const Points& points, std::int64_t column, const Wanted& wanted) : columns_(points.columns), column_(column) {
    for (std::int32_t point = 0; point < points.count(); ++point) {
      if (wanted(point)) point_.push_back(point);
    }
    std::sort(point_.begin(), point_.end(), [&](std::int32_t one, std::int32_t other) {
      const double first = points.at(one)[column], second = points.at(other)[column];
      return first != second ? first < second : one < other;
    });
    x_.reserve(point_.size() * static_cast<std::size_t>(columns_));
    for (const std::int32_t point : point_) x_.insert(x_.end(), points.at(point), points.at(point) + columns_);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(point_.size()); }
  std::int32_t point(std::int64_t place) const { return point_[static_cast<std::size_t>(place)]; }
  const double* x(std::int64_t place) const { return x_.data() + place * columns_; }
  double value(std::int64_t place) const { return x(place)[column_]; }

  /// Places whose values are not farther than `eps` below `low` or above `high`.
  std::pair<std::int64_t, std::int64_t> within(double low, double high, double eps) const {
    const double most = farthest_in_column(eps);
    const auto first = [&](const auto& before) {
      std::int64_t begin = 0, end = count();
      while (begin < end) {
        const std::int64_t middle = begin + (end - begin) / 2;
        before(value(middle)) ? begin = middle + 1 : end = middle;
      }
      return begin;
    };
    return {first([&](double value) { return low - value > most; }),
            first([&](double value) { return value - high <= most; })};
  }

 private:
  std::int64_t columns_, column_;
  std::vector<std::int32_t> point_;
  std::vector<double> x_;
};

/// Neighbouring queries, and the rows that are near in the column.
class Chunk {
 public:
  Chunk(const Sorted& queries, std::int64_t first, std::int64_t last, const Sorted& rows, const Reach& reach,
        std::int64_t columns)
      : queries_(queries),
        rows_(rows),
        first_(first),
        last_(last),
        columns_(columns),
        squared_(reach.squared()),
        window_(rows.within(queries.value(first), queries.value(last - 1), reach.eps)),
        panels_(queries.x(first), last - first, columns, queries.x(first)) {
    for (std::int64_t query = 0; query < last - first; ++query) panels_.set_reach(query, squared_);
  }

  std::int64_t count() const { return last_ - first_; }
  /// Of a query of the chunk, by its number in it.
  std::int32_t point(std::int64_t query) const { return queries_.point(first_ + query); }

  /// Calls visit(query, point) of each near pair.
  template <class Visit>
  void each_near(const Visit& visit) {
    for (std::int64_t begin = window_.first; begin < window_.second; begin += kRows) {
      moved_.take(rows_.x(begin), std::min(kRows, window_.second - begin), columns_, queries_.x(first_));
      pairs_.clear();
      find_near(moved_, panels_, pairs_);
      for (const auto [row, query] : pairs_) {
        const double* x = queries_.x(first_ + query);
        if (squared_distance(x, rows_.x(begin + row), columns_) <= squared_) visit(query, rows_.point(begin + row));
      }
    }
  }
  /// No more rows are looked for; some may come yet.
  void drop(std::int64_t query) { panels_.drop(query); }

 private:
  const Sorted& queries_;
  const Sorted& rows_;
  std::int64_t first_, last_, columns_;
  double squared_;
  std::pair<std::int64_t, std::int64_t> window_;
  QueryPanels<double> panels_;
  MovedRows<double> moved_;
  std::vector<NearPair> pairs_;
};

class Window final : public Vicinity {
 public:
  Window(Points& points, const Reach& reach, std::int64_t column) : points_(points), reach_(reach), column_(column) {
    points_.core.assign(static_cast<std::size_t>(points_.count()), 0);
  }

  void find_core() override {
    const auto own = sorted([&](std::int32_t point) { return point < points_.own; });
    each_chunk(own, sorted([](std::int32_t) { return true; }), [&](Chunk& chunk) {
      std::vector<WeightNear> weights(static_cast<std::size_t>(chunk.count()), WeightNear(points_, reach_));
      chunk.each_near([&](std::int64_t query, std::int32_t point) {
        WeightNear& weight = weights[static_cast<std::size_t>(query)];
        if (weight.surely_enough()) return chunk.drop(query);
        weight.add(point);
      });
      for (std::int64_t query = 0; query < chunk.count(); ++query) {
        points_.core[static_cast<std::size_t>(chunk.point(query))] = weights[static_cast<std::size_t>(query)].enough();
      }
    });
  }

  std::vector<std::int64_t> connect() override {
    UnionFind sets(static_cast<std::size_t>(points_.count()));
    const auto own = sorted([&](std::int32_t point) { return is_core(point) && point < points_.own; });
    each_chunk(own, sorted([&](std::int32_t point) { return is_core(point); }), [&](Chunk& chunk) {
      chunk.each_near([&](std::int64_t query, std::int32_t point) { sets.unite(chunk.point(query), point); });
    });
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> lowest(static_cast<std::size_t>(points_.count()), kNone), result(lowest.size(), -1);
    const auto of_set = [&](std::int32_t point) -> std::int64_t& {
      return lowest[static_cast<std::size_t>(sets.find(point))];
    };
    for (std::int32_t point = 0; point < points_.count(); ++point) {
      of_set(point) = std::min(of_set(point), points_.number[static_cast<std::size_t>(point)]);
    }
    for (std::int32_t point = 0; point < points_.count(); ++point) {
      if (is_core(point)) result[static_cast<std::size_t>(point)] = of_set(point);
    }
    return result;
  }

  void adopt(std::vector<std::int64_t>& labels) override {
    const auto own = sorted([&](std::int32_t point) { return !is_core(point) && point < points_.own; });
    each_chunk(own, sorted([&](std::int32_t point) { return is_core(point); }), [&](Chunk& chunk) {
      chunk.each_near([&](std::int64_t query, std::int32_t point) {
        std::int64_t& best = labels[static_cast<std::size_t>(chunk.point(query))];
        const std::int64_t label = labels[static_cast<std::size_t>(point)];
        if (best < 0 || label < best) best = label;
      });
    });
  }

 private:
  bool is_core(std::int32_t point) const { return points_.core[static_cast<std::size_t>(point)] != 0; }
  template <class Wanted>
  Sorted sorted(const Wanted& wanted) const {
    return {points_, column_, wanted};
  }

  template <class Visit>
  void each_chunk(const Sorted& queries, const Sorted& rows, const Visit& visit) const {
    const Sweep sweep(reach_.observer, "near rows", queries.count());
    on_threads(reach_.threads, queries.count(), kQueries, [&](std::int64_t first, std::int64_t last, int) {
      Chunk chunk(queries, first, last, rows, reach_, points_.columns);
      visit(chunk);
      sweep.add(last - first);
    });
  }

  Points& points_;
  Reach reach_;
  std::int64_t column_;
};

}  // namespace

std::unique_ptr<Vicinity> by_window(Points& points, const Reach& reach, std::int64_t column) {
  return std::make_unique<Window>(points, reach, column);
}

}  // namespace lockstep::ml::dbscan
