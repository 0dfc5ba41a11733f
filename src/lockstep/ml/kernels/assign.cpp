#include "lockstep/ml/kernels/assign.h"

#include <algorithm>
#include <array>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/assign.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows that are worked on together: a multiple of the rows of every tile below.
constexpr std::int64_t kRows = 48;

/// Vectors of a panel, and registers that hold scores while a row is read.
template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;
template <class T>
constexpr std::size_t kPanelVectors = 64 / sizeof(T) / hn::MaxLanes(Tag<T>());
constexpr std::size_t kRegisters = HWY_TARGET <= HWY_AVX3 ? 24 : 12;

/// The best centroid of each lane of a panel so far, row by row.
template <class T>
struct Best {
  static constexpr std::size_t kWidth = 64 / sizeof(T);
  using Index = hwy::MakeSigned<T>;
  HWY_ALIGN std::array<T, kRows * kWidth> score;
  HWY_ALIGN std::array<Index, kRows * kWidth> panel;
};

/// The scores of kTile rows with kPanels neighbouring panels, in registers from the first column to the last.
template <std::size_t kTile, std::size_t kPanels, class T>
HWY_INLINE void score_tile(const T* HWY_RESTRICT x, std::int64_t columns, const CentroidPanels<T>& centroids,
                           std::int64_t panel, T* HWY_RESTRICT best_score,
                           typename Best<T>::Index* HWY_RESTRICT best_panel) {
  const Tag<T> tag;
  const hn::RebindToSigned<Tag<T>> index_tag;
  using Vector = hn::Vec<Tag<T>>;
  constexpr std::size_t kEach = kPanelVectors<T>;
  constexpr std::size_t kTagLanes = hn::MaxLanes(Tag<T>());
  constexpr std::size_t kWidth = 64 / sizeof(T);

  Vector scores[kTile][kPanels * kEach];
  const T* offsets = centroids.offsets() + panel * static_cast<std::int64_t>(kWidth);
  for (std::size_t v = 0; v < kPanels * kEach; ++v) {
    const auto offset = hn::Load(tag, offsets + v * kTagLanes);
    for (std::size_t row = 0; row < kTile; ++row) scores[row][v] = offset;
  }
  const T* values = centroids.panel(panel);
  const std::int64_t next_panel = columns * static_cast<std::int64_t>(kWidth);
  for (std::int64_t column = 0; column < columns; ++column, values += kWidth) {
    Vector c[kPanels * kEach];
    for (std::size_t p = 0; p < kPanels; ++p) {
      for (std::size_t v = 0; v < kEach; ++v) {
        c[p * kEach + v] = hn::Load(tag, values + static_cast<std::int64_t>(p) * next_panel + v * kTagLanes);
      }
    }
    for (std::size_t row = 0; row < kTile; ++row) {
      const auto value = hn::Set(tag, x[static_cast<std::int64_t>(row) * columns + column]);
      for (std::size_t v = 0; v < kPanels * kEach; ++v) scores[row][v] = hn::MulAdd(value, c[v], scores[row][v]);
    }
  }
  for (std::size_t row = 0; row < kTile; ++row) {
    for (std::size_t v = 0; v < kEach; ++v) {
      T* score = best_score + row * kWidth + v * kTagLanes;
      auto* number = best_panel + row * kWidth + v * kTagLanes;
      auto best = hn::Load(tag, score);
      auto best_number = hn::Load(index_tag, number);
      for (std::size_t p = 0; p < kPanels; ++p) {
        const auto better = hn::Gt(scores[row][p * kEach + v], best);
        best = hn::IfThenElse(better, scores[row][p * kEach + v], best);
        best_number = hn::IfThenElse(
            hn::RebindMask(index_tag, better),
            hn::Set(index_tag, static_cast<typename Best<T>::Index>(panel + static_cast<std::int64_t>(p))),
            best_number);
      }
      hn::Store(best, tag, score);
      hn::Store(best_number, index_tag, number);
    }
  }
}

/// All of kRows rows (or the `rows` that are left) with kPanels panels.
template <std::size_t kPanels, class T>
HWY_INLINE void score_rows(const T* x, std::int64_t rows, std::int64_t columns, const CentroidPanels<T>& centroids,
                           std::int64_t panel, Best<T>& best) {
  constexpr std::size_t kWidth = 64 / sizeof(T);
  constexpr std::size_t kTile = std::clamp<std::size_t>(kRegisters / (kPanels * kPanelVectors<T>), 1, 16);
  static_assert(kRows % kTile == 0);
  std::int64_t row = 0;
  for (; row + static_cast<std::int64_t>(kTile) <= rows; row += kTile) {
    score_tile<kTile, kPanels>(x + row * columns, columns, centroids, panel, best.score.data() + row * kWidth,
                               best.panel.data() + row * kWidth);
  }
  for (; row < rows; ++row) {
    score_tile<1, kPanels>(x + row * columns, columns, centroids, panel, best.score.data() + row * kWidth,
                           best.panel.data() + row * kWidth);
  }
}

template <class T>
HWY_INLINE void score_panels(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, Best<T>& best) {
  best.score.fill(-std::numeric_limits<T>::infinity());
  best.panel.fill(0);
  constexpr std::int64_t kAtOnce = kRegisters >= 24 * kPanelVectors<T> ? 4 : kPanelVectors<T> <= 2 ? 2 : 1;
  std::int64_t panel = 0;
  while (panel < centroids.panels()) {
    const std::int64_t left = centroids.panels() - panel;
    const std::int64_t columns = centroids.columns();
    if (kAtOnce >= 4 && left >= 4) {
      score_rows<kAtOnce >= 4 ? 4 : 1>(x, rows, columns, centroids, panel, best);
      panel += 4;
    } else if (kAtOnce >= 3 && left == 3) {
      score_rows<kAtOnce >= 3 ? 3 : 1>(x, rows, columns, centroids, panel, best);
      panel += 3;
    } else if (kAtOnce >= 2 && left >= 2) {
      score_rows<kAtOnce >= 2 ? 2 : 1>(x, rows, columns, centroids, panel, best);
      panel += 2;
    } else {
      score_rows<1>(x, rows, columns, centroids, panel, best);
      panel += 1;
    }
  }
}

/// Of the best of each lane the best of all; of equal ones that with the lowest number.
template <class T>
HWY_INLINE std::int32_t best_of_lanes(const T* score, const typename Best<T>::Index* panel) {
  const Tag<T> tag;
  const hn::RebindToSigned<Tag<T>> index_tag;
  constexpr std::size_t kTagLanes = hn::MaxLanes(Tag<T>());
  constexpr std::size_t kWidth = 64 / sizeof(T);
  constexpr int kShift = kWidth == 16 ? 4 : 3;
  using Index = typename Best<T>::Index;
  auto top = hn::Load(tag, score);
  for (std::size_t v = 1; v < kPanelVectors<T>; ++v) top = hn::Max(top, hn::Load(tag, score + v * kTagLanes));
  top = hn::MaxOfLanes(tag, top);
  auto number = hn::Set(index_tag, std::numeric_limits<Index>::max());
  for (std::size_t v = 0; v < kPanelVectors<T>; ++v) {
    const auto is_top = hn::RebindMask(index_tag, hn::Eq(hn::Load(tag, score + v * kTagLanes), top));
    const auto numbers = hn::Add(hn::ShiftLeft<kShift>(hn::Load(index_tag, panel + v * kTagLanes)),
                                 hn::Iota(index_tag, static_cast<Index>(v * kTagLanes)));
    number = hn::IfThenElse(is_top, hn::Min(number, numbers), number);
  }
  // A row that is not finite is like none; the sums it is added to will tell.
  const auto found = hn::GetLane(hn::MinOfLanes(index_tag, number));
  return found == std::numeric_limits<Index>::max() ? 0 : static_cast<std::int32_t>(found);
}

template <bool kWeighted, class T>
HWY_INLINE void add_row(const T* HWY_RESTRICT x, std::int64_t columns, double weight, double* HWY_RESTRICT sum) {
  const Lanes tag;
  const auto factor = hn::Set(tag, weight);
  std::int64_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) {
    const auto before = hn::Load(tag, sum + column);
    hn::Store(kWeighted ? hn::MulAdd(factor, load(x + column), before) : hn::Add(load(x + column), before), tag,
              sum + column);
  }
  if (column < columns) {
    const auto before = hn::Load(tag, sum + column);
    const auto some = load_some(x + column, columns - column);
    hn::Store(kWeighted ? hn::MulAdd(factor, some, before) : hn::Add(some, before), tag, sum + column);
  }
}

template <class T>
std::int64_t Assign(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
  constexpr std::size_t kWidth = 64 / sizeof(T);
  const std::int64_t columns = centroids.columns();
  const std::int64_t stride = padded(columns);
  Best<T> best;
  std::int64_t changed = 0;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t some = std::min(kRows, rows - first);
    const T* here = x + first * columns;
    score_panels(here, some, centroids, best);
    for (std::int64_t row = 0; row < some; ++row) {
      const std::int32_t label = best_of_lanes<T>(best.score.data() + row * kWidth, best.panel.data() + row * kWidth);
      changed += labels[first + row] != label;
      labels[first + row] = label;
    }
    if (sums.sums == nullptr) continue;
    for (std::int64_t row = 0; row < some; ++row) {
      const std::int32_t label = labels[first + row];
      const double weight = weights == nullptr ? 1 : weights[first + row];
      sums.weights[label] += weight;
      if (weights == nullptr) {
        add_row<false>(here + row * columns, columns, 1, sums.sums + label * stride);
      } else {
        add_row<true>(here + row * columns, columns, weight, sums.sums + label * stride);
      }
    }
  }
  return changed;
}

/// Eight lanes of doubles on every processor, so that the sum over them is the same.
template <class T>
void SquaredDistances(const T* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                      const std::int32_t* labels, double* result) {
  const Lanes tag;
  HWY_ALIGN double lanes[8];
  for (std::int64_t row = 0; row < rows; ++row, x += columns) {
    const double* c = labels == nullptr ? centroids : centroids + labels[row] * columns;
    hn::Vec<Lanes> sums[kVectors];
    for (auto& sum : sums) sum = hn::Zero(tag);
    std::int64_t column = 0;
    for (; column + 8 <= columns; column += 8) {
      for (std::int64_t part = 0; part < kVectors; ++part) {
        const std::int64_t at = column + part * kLanes;
        const auto difference = hn::Sub(load(x + at), hn::LoadU(tag, c + at));
        sums[part] = hn::MulAdd(difference, difference, sums[part]);
      }
    }
    for (std::int64_t part = 0; part < kVectors; ++part) {
      const std::int64_t at = column + part * kLanes;
      if (at >= columns) break;
      const std::int64_t some = std::min(kLanes, columns - at);
      const auto difference = hn::Sub(load_some(x + at, some), load_some(c + at, some));
      sums[part] = hn::MulAdd(difference, difference, sums[part]);
    }
    for (std::int64_t part = 0; part < kVectors; ++part) hn::Store(sums[part], tag, lanes + part * kLanes);
    result[row] = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
  }
}

std::int64_t AssignDouble(const double* x, std::int64_t rows, const CentroidPanels<double>& centroids,
                          const double* weights, std::int32_t* labels, ClusterSums sums) {
  return Assign(x, rows, centroids, weights, labels, sums);
}
std::int64_t AssignFloat(const float* x, std::int64_t rows, const CentroidPanels<float>& centroids,
                         const double* weights, std::int32_t* labels, ClusterSums sums) {
  return Assign(x, rows, centroids, weights, labels, sums);
}
void DistancesDouble(const double* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                     const std::int32_t* labels, double* result) {
  SquaredDistances(x, rows, columns, centroids, labels, result);
}
void DistancesFloat(const float* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                    const std::int32_t* labels, double* result) {
  SquaredDistances(x, rows, columns, centroids, labels, result);
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ml {

template <class T>
CentroidPanels<T>::CentroidPanels(std::span<const double> centroids, std::int64_t count, std::int64_t columns)
    : count_(count),
      columns_(columns),
      panels_((count + kWidth - 1) / kWidth),
      lines_(static_cast<std::size_t>(panels_ * columns)),
      offsets_(static_cast<std::size_t>(panels_)) {
  // What a panel has beyond the last centroid is never the nearest.
  for (Line& line : offsets_)
    std::fill(std::begin(line.values), std::end(line.values), -std::numeric_limits<T>::infinity());
  std::vector<double> mean(static_cast<std::size_t>(columns));
  for (std::int64_t c = 0; c < count; ++c) {
    for (std::int64_t d = 0; d < columns; ++d) mean[d] += centroids[c * columns + d] / static_cast<double>(count);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    double offset = 0;
    for (std::int64_t d = 0; d < columns; ++d) {
      const T moved = static_cast<T>(centroids[c * columns + d] - mean[d]);
      lines_[(c / kWidth) * columns + d].values[c % kWidth] = moved;
      offset -= mean[d] * moved + 0.5 * moved * moved;
    }
    offsets_[c / kWidth].values[c % kWidth] = static_cast<T>(offset);
  }
}
template class CentroidPanels<float>;
template class CentroidPanels<double>;

HWY_EXPORT(AssignDouble);
HWY_EXPORT(AssignFloat);
HWY_EXPORT(DistancesDouble);
HWY_EXPORT(DistancesFloat);

template <>
std::int64_t assign(const double* x, std::int64_t rows, const CentroidPanels<double>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
  return HWY_DYNAMIC_DISPATCH(AssignDouble)(x, rows, centroids, weights, labels, sums);
}
template <>
std::int64_t assign(const float* x, std::int64_t rows, const CentroidPanels<float>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
  return HWY_DYNAMIC_DISPATCH(AssignFloat)(x, rows, centroids, weights, labels, sums);
}
template <>
void squared_distances(const double* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                       const std::int32_t* labels, double* result) {
  HWY_DYNAMIC_DISPATCH(DistancesDouble)(x, rows, columns, centroids, labels, result);
}
template <>
void squared_distances(const float* x, std::int64_t rows, std::int64_t columns, const double* centroids,
                       const std::int32_t* labels, double* result) {
  HWY_DYNAMIC_DISPATCH(DistancesFloat)(x, rows, columns, centroids, labels, result);
}

}  // namespace lockstep::ml
#endif
