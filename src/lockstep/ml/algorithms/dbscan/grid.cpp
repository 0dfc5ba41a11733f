#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "lockstep/core/on_threads.h"
#include "lockstep/ml/algorithms/dbscan/vicinity.h"
#include "lockstep/ml/squared_distance.h"
#include "lockstep/ml/union_find.h"

namespace lockstep::ml::dbscan {
namespace {

// Points of a cell are all near each other: its side is eps / sqrt(columns), less what rounding could add.
constexpr double kShrink = 1e-6;
// Of a coordinate. With so many cells a place in its cell is off by 2^-21 sides at most, less than kShrink.
constexpr int kBits = 31;
constexpr double kMostCells = 1 << 30;
constexpr std::int64_t kMostColumns = 4;
// Cells begin here, so that a neighbour's number is never below 0.
constexpr std::int64_t kFirst = 4;
// Cells that a thread takes at once.
constexpr std::int64_t kAtOnce = 1024;

/// The coordinates of a cell one beside the other, so that their order is that of the cells: a row of neighbours along
/// the last column lies together.
__extension__ using Key = unsigned __int128;
__extension__ using KeyOffset = __int128;

/// Cells near a cell: all with these offsets in the first columns, and up to `last` to either side in the last.
struct Neighbors {
  KeyOffset offset;
  int last;
};

/// Those that can hold a near point; `around`: alone those beside it, along diagonals too.
std::vector<Neighbors> neighbors_of_cell(std::int64_t columns, bool around) {
  // Squared distance of two cells in squared sides. Two that touch have none.
  const auto apart = [](int offset) {
    const int gap = std::max(std::abs(offset) - 1, 0);
    return gap * gap;
  };
  const double most = static_cast<double>(columns) * (1 + 10 * kShrink);
  const int widest = around ? 1 : 1 + static_cast<int>(std::sqrt(most));
  struct Prefix {
    KeyOffset offset;
    int apart;
  };
  std::vector<Prefix> prefixes{{0, 0}};
  for (std::int64_t column = 0; column + 1 < columns; ++column) {
    std::vector<Prefix> longer;
    for (const Prefix& prefix : prefixes) {
      for (int offset = -widest; offset <= widest; ++offset) {
        longer.push_back({prefix.offset * (KeyOffset{1} << kBits) + offset, prefix.apart + apart(offset)});
      }
    }
    prefixes = std::move(longer);
  }
  std::vector<Neighbors> result;
  for (const Prefix& prefix : prefixes) {
    int last = widest;
    while (last >= 0 && prefix.apart + apart(last) > most) --last;
    if (last >= 0) result.push_back({prefix.offset * (KeyOffset{1} << kBits), last});
  }
  return result;
}

class Grid final : public Vicinity {
 public:
  Grid(Points& points, const Reach& reach, const std::vector<double>& lowest, double side)
      : points_(points), reach_(reach), columns_(points.columns) {
    sort(lowest, side);
    points_.core.assign(static_cast<std::size_t>(points_.count()), 0);
  }

  void find_core() override {
    each_cell(neighbors_of_cell(columns_, false), [&](std::int32_t cell, const auto& each_neighbor) {
      const std::int32_t begin = begin_of(cell), end = begin_of(cell + 1);
      WeightNear near(points_, reach_);
      for (std::int32_t place = begin; place < end && !near.surely_enough(); ++place) near.add(point_at(place));
      if (near.surely_enough()) {
        for (std::int32_t place = begin; place < end; ++place) set_core(place);
        return;
      }
      std::vector<std::int32_t> others;
      each_neighbor([&](std::int32_t other) { others.push_back(other); });
      for (std::int32_t place = begin; place < end; ++place) {
        if (!is_own(place)) continue;
        near.clear();
        for (std::int32_t beside = begin; beside < end; ++beside) near.add(point_at(beside));
        for (std::size_t i = 0; i < others.size() && !near.surely_enough(); ++i) add_near(place, others[i], near);
        if (near.enough()) set_core(place);
      }
    });
  }

  std::vector<std::int64_t> connect() override {
    put_core_first();
    UnionFind sets(cells_.size() - 1);
    // Cells beside each other first: then most that are farther apart are connected already.
    for (const bool around : {true, false}) {
      each_cell(neighbors_of_cell(columns_, around), [&](std::int32_t cell, const auto& each_neighbor) {
        if (core_of(cell) == 0) return;
        each_neighbor([&](std::int32_t other) {
          if (other > cell || core_of(other) == 0 || sets.find(cell) == sets.find(other)) return;
          if (touch(cell, other)) sets.unite(cell, other);
        });
      });
    }
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    std::vector<std::int64_t> lowest(cells_.size(), kNone), result(static_cast<std::size_t>(points_.count()), -1);
    const auto each_core = [&](const auto& visit) {
      for (std::int32_t cell = 0; cell < cell_count(); ++cell) {
        const auto set = static_cast<std::size_t>(core_of(cell) == 0 ? 0 : sets.find(cell));
        for (std::int32_t i = 0; i < core_of(cell); ++i) {
          visit(lowest[set], static_cast<std::size_t>(point_at(begin_of(cell) + i)));
        }
      }
    };
    each_core([&](std::int64_t& number, std::size_t point) { number = std::min(number, points_.number[point]); });
    each_core([&](std::int64_t& number, std::size_t point) { result[point] = number; });
    return result;
  }

  void adopt(std::vector<std::int64_t>& labels) override {
    const auto label_of = [&](std::int32_t cell) {
      return core_of(cell) == 0 ? -1 : labels[static_cast<std::size_t>(point_at(begin_of(cell)))];
    };
    each_cell(neighbors_of_cell(columns_, false), [&](std::int32_t cell, const auto& each_neighbor) {
      const std::int32_t begin = begin_of(cell) + core_of(cell), end = begin_of(cell + 1);
      if (begin == end) return;
      std::vector<std::int32_t> others;
      each_neighbor([&](std::int32_t other) {
        if (core_of(other) > 0) others.push_back(other);
      });
      for (std::int32_t place = begin; place < end; ++place) {
        if (!is_own(place)) continue;
        std::int64_t best = label_of(cell);
        for (const std::int32_t other : others) {
          const std::int64_t label = label_of(other);
          if ((best < 0 || label < best) && touches(place, other)) best = label;
        }
        labels[static_cast<std::size_t>(point_at(place))] = best;
      }
    });
  }

 private:
  struct Cell {
    Key key;
    std::int32_t begin;     // of its places
    std::int32_t core = 0;  // of them, the first ones
  };

  /// Points by cell; a place is that of a point in this order.
  void sort(const std::vector<double>& lowest, double side) {
    struct Placed {
      Key key;
      std::int32_t point;
    };
    std::vector<Placed> placed(static_cast<std::size_t>(points_.count()));
    on_threads(reach_.threads, points_.count(), 1 << 16, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t point = first; point < last; ++point) {
        Key key = 0;
        for (std::int64_t column = 0; column < columns_; ++column) {
          const double cell = std::floor((points_.at(point)[column] - lowest[static_cast<std::size_t>(column)]) / side);
          key = key << kBits | static_cast<Key>(kFirst + static_cast<std::int64_t>(cell));
        }
        placed[static_cast<std::size_t>(point)] = {key, static_cast<std::int32_t>(point)};
      }
    });
    std::sort(placed.begin(), placed.end(), [](const Placed& one, const Placed& other) {
      return one.key != other.key ? one.key < other.key : one.point < other.point;
    });
    point_.reserve(placed.size());
    x_.reserve(points_.x.size());
    for (const auto& [key, point] : placed) {
      const auto place = static_cast<std::int32_t>(point_.size());
      if (cells_.empty() || cells_.back().key != key) cells_.push_back({key, place});
      point_.push_back(point);
      x_.insert(x_.end(), points_.at(point), points_.at(point) + columns_);
    }
    cells_.push_back({~Key{0}, static_cast<std::int32_t>(point_.size())});
  }

  std::int32_t cell_count() const { return static_cast<std::int32_t>(cells_.size()) - 1; }
  std::int32_t begin_of(std::int32_t cell) const { return cells_[static_cast<std::size_t>(cell)].begin; }
  std::int32_t core_of(std::int32_t cell) const { return cells_[static_cast<std::size_t>(cell)].core; }
  std::int32_t point_at(std::int32_t place) const { return point_[static_cast<std::size_t>(place)]; }
  const double* x_at(std::int32_t place) const { return x_.data() + place * columns_; }
  bool is_own(std::int32_t place) const { return point_at(place) < points_.own; }
  void set_core(std::int32_t place) {
    if (is_own(place)) points_.core[static_cast<std::size_t>(point_at(place))] = 1;
  }

  /// Calls visit(cell, each_neighbor) of all cells, on threads; each_neighbor(visit) goes through the cells of
  /// `neighbors` that have points, without the cell itself.
  template <class Visit>
  void each_cell(const std::vector<Neighbors>& neighbors, const Visit& visit) {
    const Sweep sweep(reach_.observer, "near rows", points_.count());
    on_threads(reach_.threads, cell_count(), kAtOnce, [&](std::int64_t first, std::int64_t last, int) {
      // As cells come in order, so do the first neighbours of each kind.
      const auto first_key = [&](std::int64_t cell, const Neighbors& kind) {
        return cells_[static_cast<std::size_t>(cell)].key + static_cast<Key>(kind.offset - kind.last);
      };
      std::vector<std::size_t> next;
      for (const Neighbors& kind : neighbors) {
        const auto found = std::lower_bound(cells_.begin(), cells_.end(), first_key(first, kind),
                                            [](const Cell& cell, Key key) { return cell.key < key; });
        next.push_back(static_cast<std::size_t>(found - cells_.begin()));
      }
      for (std::int64_t cell = first; cell < last; ++cell) {
        visit(static_cast<std::int32_t>(cell), [&](const auto& visit_neighbor) {
          for (std::size_t kind = 0; kind < neighbors.size(); ++kind) {
            const Key begin = first_key(cell, neighbors[kind]);
            const Key end = begin + static_cast<Key>(2 * neighbors[kind].last);
            std::size_t& other = next[kind];
            while (cells_[other].key < begin) ++other;
            for (std::size_t i = other; cells_[i].key <= end; ++i) {
              if (i != static_cast<std::size_t>(cell)) visit_neighbor(static_cast<std::int32_t>(i));
            }
          }
        });
      }
      sweep.add(begin_of(static_cast<std::int32_t>(last)) - begin_of(static_cast<std::int32_t>(first)));
    });
  }

  void add_near(std::int32_t place, std::int32_t cell, WeightNear& near) const {
    const double* x = x_at(place);
    for (std::int32_t other = begin_of(cell); other < begin_of(cell + 1) && !near.surely_enough(); ++other) {
      if (squared_distance(x, x_at(other), columns_) <= reach_.squared()) near.add(point_at(other));
    }
  }

  /// Of each cell core points come first, and their bounds are known.
  void put_core_first() {
    bounds_.resize(static_cast<std::size_t>(cell_count() * 2 * columns_));
    for (std::int32_t cell = 0; cell < cell_count(); ++cell) {
      std::int32_t next = begin_of(cell);
      for (std::int32_t place = next; place < begin_of(cell + 1); ++place) {
        if (points_.core[static_cast<std::size_t>(point_at(place))] == 0) continue;
        std::swap(point_[static_cast<std::size_t>(place)], point_[static_cast<std::size_t>(next)]);
        std::swap_ranges(x_.begin() + place * columns_, x_.begin() + (place + 1) * columns_,
                         x_.begin() + next * columns_);
        ++next;
      }
      cells_[static_cast<std::size_t>(cell)].core = next - begin_of(cell);
      double* low = bounds_.data() + cell * 2 * columns_;
      for (std::int64_t column = 0; column < columns_; ++column) {
        low[column] = std::numeric_limits<double>::infinity();
        low[columns_ + column] = -std::numeric_limits<double>::infinity();
        for (std::int32_t place = begin_of(cell); place < next; ++place) {
          low[column] = std::min(low[column], x_at(place)[column]);
          low[columns_ + column] = std::max(low[columns_ + column], x_at(place)[column]);
        }
      }
    }
  }

  /// Whether a core point of the cell is near. Rounding is monotone: the bounds are no farther than the point.
  bool touches(std::int32_t place, std::int32_t cell) const {
    const double* x = x_at(place);
    const double* low = bounds_.data() + cell * 2 * columns_;
    double nearest[kMostColumns];
    for (std::int64_t column = 0; column < columns_; ++column) {
      nearest[column] = std::clamp(x[column], low[column], low[columns_ + column]);
    }
    if (squared_distance(x, nearest, columns_) > reach_.squared()) return false;
    for (std::int32_t i = 0; i < core_of(cell); ++i) {
      if (squared_distance(x, x_at(begin_of(cell) + i), columns_) <= reach_.squared()) return true;
    }
    return false;
  }
  bool touch(std::int32_t one, std::int32_t other) const {
    for (std::int32_t i = 0; i < core_of(one); ++i) {
      if (touches(begin_of(one) + i, other)) return true;
    }
    return false;
  }

  Points& points_;
  Reach reach_;
  std::int64_t columns_;
  std::vector<Cell> cells_;          // in the order of keys, and one behind them all
  std::vector<std::int32_t> point_;  // by place
  std::vector<double> x_;            // by place
  std::vector<double> bounds_;       // of core points by cell: the lowest of each column, then the highest
};

}  // namespace

std::unique_ptr<Vicinity> by_grid(Points& points, const Reach& reach) {
  if (points.columns > kMostColumns) return nullptr;
  const double side = reach.eps / std::sqrt(static_cast<double>(points.columns)) * (1 - kShrink);
  std::vector<double> lowest(points.at(0), points.at(0) + (points.count() > 0 ? points.columns : 0)), highest = lowest;
  for (std::int64_t i = 0; i < points.count() * points.columns; ++i) {
    const auto column = static_cast<std::size_t>(i % points.columns);
    lowest[column] = std::min(lowest[column], points.x[static_cast<std::size_t>(i)]);
    highest[column] = std::max(highest[column], points.x[static_cast<std::size_t>(i)]);
  }
  for (std::size_t column = 0; column < lowest.size(); ++column) {
    if (!((highest[column] - lowest[column]) / side < kMostCells)) return nullptr;
  }
  return std::make_unique<Grid>(points, reach, lowest, side);
}

}  // namespace lockstep::ml::dbscan
