#include "lockstep/ml/kernels/assign.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/assign.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows that are worked on together: a multiple of the rows of every tile below.
constexpr std::int64_t kRows = 48;

/// Vectors of kBytes, or as many as the processor has.
template <class T, int kBytes>
using Tag = hn::CappedTag<T, kBytes / sizeof(T)>;
template <class T, int kBytes>
constexpr int kTagLanes = static_cast<int>(hn::MaxLanes(Tag<T, kBytes>()));
/// In a panel of centroids.
template <class T, int kBytes>
constexpr int kPanelVectors = 64 / static_cast<int>(sizeof(T)) / kTagLanes<T, kBytes>;
/// Whose scores are computed at once: those of one panel, or more.
template <class T, int kBytes>
constexpr int kMostVectors = std::max(4, kPanelVectors<T, kBytes>);
// That hold scores while a row is read.
constexpr int kRegisters = HWY_TARGET <= HWY_AVX3 ? 24 : 12;

/// The highest scores so far of each row, lane by lane, and the vectors of centroids that they are of.
template <class T, int kBytes>
struct Best {
  using Index = hwy::MakeSigned<T>;
  HWY_ALIGN std::array<T, kRows * kTagLanes<T, kBytes>> score;
  HWY_ALIGN std::array<Index, kRows * kTagLanes<T, kBytes>> vector;
};

/// Where the highest score of all lanes is; of equal ones the first. No branch depends on where.
template <class T, int kBytes>
HWY_INLINE std::int32_t place_of_best(hn::Vec<Tag<T, kBytes>> score, const hwy::MakeSigned<T>* vector) {
  const Tag<T, kBytes> tag;
  const auto top = hn::MaxOfLanes(tag, score);
  const auto is_top = hn::Eq(score, top);
  if (HWY_LIKELY(hn::CountTrue(tag, is_top) == 1)) {
    const auto lane = hn::FindFirstTrue(tag, is_top);
    return static_cast<std::int32_t>(vector[lane] * kTagLanes<T, kBytes> + lane);
  }
  // Equally near ones in several lanes; or none, of a row that is not finite: the sums it is added to will tell.
  std::int32_t place = std::numeric_limits<std::int32_t>::max();
  HWY_ALIGN T scores[kTagLanes<T, kBytes>];
  hn::Store(score, tag, scores);
  for (int lane = 0; lane < kTagLanes<T, kBytes>; ++lane) {
    if (scores[lane] == hn::GetLane(top))
      place = std::min(place, static_cast<std::int32_t>(vector[lane] * kTagLanes<T, kBytes> + lane));
  }
  return place == std::numeric_limits<std::int32_t>::max() ? 0 : place;
}

/// A part of the centroids that fits into registers: so many panels and vectors come before it.
struct Part {
  std::int64_t panel, vector;
  bool first, last;
};

/// The scores of kTile rows with the centroids of neighbouring vectors, in registers from the first column to the last.
/// After the last part the labels are known.
template <int kTile, int kVectorsOfRow, int kBytes, class T>
HWY_INLINE void score_tile(const T* HWY_RESTRICT x, std::int64_t columns, const CentroidPanels<T>& centroids, Part part,
                           T* HWY_RESTRICT best_score, typename Best<T, kBytes>::Index* HWY_RESTRICT best_vector,
                           std::int32_t* HWY_RESTRICT labels) {
  const Tag<T, kBytes> tag;
  const hn::RebindToSigned<Tag<T, kBytes>> index_tag;
  constexpr int kWidth = CentroidPanels<T>::kWidth;
  const auto place_of = [&](int vector) {
    return (vector / kPanelVectors<T, kBytes>)*columns * kWidth +
           vector % kPanelVectors<T, kBytes> * kTagLanes<T, kBytes>;
  };

  hn::Vec<Tag<T, kBytes>> scores[kTile][kVectorsOfRow];
  const T* offsets = centroids.offsets() + part.panel * kWidth;
  for (int row = 0; row < kTile; ++row) {
    for (int v = 0; v < kVectorsOfRow; ++v) scores[row][v] = hn::Load(tag, offsets + v * kTagLanes<T, kBytes>);
  }
  const T* values = centroids.panel(part.panel);
  for (std::int64_t column = 0; column < columns; ++column, values += kWidth) {
    hn::Vec<Tag<T, kBytes>> c[kVectorsOfRow];
    for (int v = 0; v < kVectorsOfRow; ++v) c[v] = hn::Load(tag, values + place_of(v));
    for (int row = 0; row < kTile; ++row) {
      const auto value = hn::Set(tag, x[row * columns + column]);
      for (int v = 0; v < kVectorsOfRow; ++v) scores[row][v] = hn::MulAdd(value, c[v], scores[row][v]);
    }
  }
  for (int row = 0; row < kTile; ++row) {
    T* to = best_score + row * kTagLanes<T, kBytes>;
    auto* vector_to = best_vector + row * kTagLanes<T, kBytes>;
    auto best = part.first ? scores[row][0] : hn::Load(tag, to);
    auto vector = part.first ? hn::Zero(index_tag) : hn::Load(index_tag, vector_to);
    for (int v = part.first ? 1 : 0; v < kVectorsOfRow; ++v) {
      const auto better = hn::Gt(scores[row][v], best);
      best = hn::IfThenElse(better, scores[row][v], best);
      vector =
          hn::IfThenElse(hn::RebindMask(index_tag, better),
                         hn::Set(index_tag, static_cast<typename Best<T, kBytes>::Index>(part.vector + v)), vector);
    }
    hn::Store(vector, index_tag, vector_to);
    if (part.last) {
      labels[row] = place_of_best<T, kBytes>(best, vector_to);
    } else {
      hn::Store(best, tag, to);
    }
  }
}

/// All of kRows rows (or the `rows` that are left) with so many vectors of centroids.
template <int kVectorsOfRow, int kBytes, class T>
HWY_INLINE void score_rows(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, Part part,
                           Best<T, kBytes>& best, std::int32_t* labels) {
  constexpr int kTile = std::clamp(kRegisters / kVectorsOfRow, 1, 16);
  static_assert(kRows % kTile == 0);
  const std::int64_t columns = centroids.columns();
  const auto score = [&]<int kRowsAtOnce>(std::integral_constant<int, kRowsAtOnce>, std::int64_t row) HWY_ATTR {
    score_tile<kRowsAtOnce, kVectorsOfRow, kBytes>(x + row * columns, columns, centroids, part,
                                                   best.score.data() + row * kTagLanes<T, kBytes>,
                                                   best.vector.data() + row * kTagLanes<T, kBytes>, labels + row);
  };
  std::int64_t row = 0;
  for (; row + kTile <= rows; row += kTile) score(std::integral_constant<int, kTile>(), row);
  for (; row < rows; ++row) score(std::integral_constant<int, 1>(), row);
}

/// As score_rows() with `vectors` vectors, of which there are at most kVectorsOfRow.
template <int kVectorsOfRow, int kBytes, class T>
HWY_INLINE void score_some(std::int64_t vectors, const T* x, std::int64_t rows, const CentroidPanels<T>& centroids,
                           Part part, Best<T, kBytes>& best, std::int32_t* labels) {
  if constexpr (kVectorsOfRow > 1) {
    if (vectors < kVectorsOfRow) return score_some<kVectorsOfRow - 1>(vectors, x, rows, centroids, part, best, labels);
  }
  score_rows<kVectorsOfRow>(x, rows, centroids, part, best, labels);
}

/// The nearest centroid of each of up to kRows rows.
template <class T, int kBytes>
HWY_INLINE void find_nearest(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, Best<T, kBytes>& best,
                             std::int32_t* labels) {
  constexpr int kVectorsAtOnce = kMostVectors<T, kBytes>;
  static_assert(kVectorsAtOnce % kPanelVectors<T, kBytes> == 0);
  const std::int64_t vectors = (centroids.count() + kTagLanes<T, kBytes> - 1) / kTagLanes<T, kBytes>;
  for (std::int64_t first = 0; first < vectors; first += kVectorsAtOnce) {
    const Part part{first / kPanelVectors<T, kBytes>, first, first == 0, first + kVectorsAtOnce >= vectors};
    score_some<kVectorsAtOnce>(vectors - first, x, rows, centroids, part, best, labels);
  }
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

template <int kBytes, class T>
HWY_INLINE std::int64_t assign_with(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids,
                                    const double* weights, std::int32_t* labels, ClusterSums sums) {
  const std::int64_t columns = centroids.columns();
  const std::int64_t stride = padded(columns);
  Best<T, kBytes> best;
  std::int64_t changed = 0;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t some = std::min(kRows, rows - first);
    const T* here = x + first * columns;
    std::array<std::int32_t, kRows> before;
    std::copy_n(labels + first, some, before.begin());
    find_nearest(here, some, centroids, best, labels + first);
    for (std::int64_t row = 0; row < some; ++row) changed += labels[first + row] != before[row];
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

template <class T>
std::int64_t Assign(const T* x, std::int64_t rows, const CentroidPanels<T>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
#if HWY_TARGET <= HWY_AVX3
  // Few centroids fill shorter vectors better.
  const auto lanes_in = [&](std::int64_t bytes) {
    const auto lanes = bytes / static_cast<std::int64_t>(sizeof(T));
    return (centroids.count() + lanes - 1) / lanes * lanes;
  };
  if (lanes_in(32) < lanes_in(64)) return assign_with<32>(x, rows, centroids, weights, labels, sums);
#endif
  return assign_with<64>(x, rows, centroids, weights, labels, sums);
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
