#include "lockstep/ml/kernels/assign.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include <hwy/aligned_allocator.h>

#include "lockstep/ml/kernels/ahead.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/assign.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows lie side by side in the lanes of so many vectors, so that no lane is idle, however few centroids there are.
constexpr int kRowVectors = 3;
// Centroids whose scores with these rows stay in registers from the first column to the last.
constexpr int kMostCentroids = HWY_TARGET <= HWY_AVX3 ? 8 : 4;

template <class T>
using Tag = hn::CappedTag<T, 64 / sizeof(T)>;
template <class T>
constexpr std::int64_t kTagLanes = hn::MaxLanes(Tag<T>());
/// Rows that are worked on together.
template <class T>
constexpr std::int64_t kRows = kRowVectors * kTagLanes<T>;

/// A square of values of which rows become columns: as wide as is fast on every processor.
template <class T>
using SquareTag = hn::CappedTag<T, 32 / sizeof(T)>;

#if HWY_TARGET != HWY_SCALAR
/// Of as many vectors as a block of 16 bytes has values, in each block by itself.
template <class D>
HWY_INLINE void turn_blocks(D tag, hn::Vec<D>* HWY_RESTRICT rows) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    const auto first = hn::InterleaveLower(tag, rows[0], rows[1]);
    rows[1] = hn::InterleaveUpper(tag, rows[0], rows[1]);
    rows[0] = first;
  } else {
    const hn::RepartitionToWide<D> pairs;
    const auto low_01 = hn::BitCast(pairs, hn::InterleaveLower(tag, rows[0], rows[1]));
    const auto high_01 = hn::BitCast(pairs, hn::InterleaveUpper(tag, rows[0], rows[1]));
    const auto low_23 = hn::BitCast(pairs, hn::InterleaveLower(tag, rows[2], rows[3]));
    const auto high_23 = hn::BitCast(pairs, hn::InterleaveUpper(tag, rows[2], rows[3]));
    rows[0] = hn::BitCast(tag, hn::InterleaveLower(pairs, low_01, low_23));
    rows[1] = hn::BitCast(tag, hn::InterleaveUpper(pairs, low_01, low_23));
    rows[2] = hn::BitCast(tag, hn::InterleaveLower(pairs, high_01, high_23));
    rows[3] = hn::BitCast(tag, hn::InterleaveUpper(pairs, high_01, high_23));
  }
}

/// A square at `x`, whose rows are `columns` apart, to `turned`, whose columns are kRows apart.
template <class T>
HWY_INLINE void turn_square(const T* HWY_RESTRICT x, std::int64_t columns, T* HWY_RESTRICT turned) {
  const SquareTag<T> tag;
  constexpr int kSide = static_cast<int>(hn::MaxLanes(tag)), kInBlock = 16 / static_cast<int>(sizeof(T));
  static_assert(kSide == kInBlock || kSide == 2 * kInBlock);
  hn::Vec<SquareTag<T>> rows[kSide];
  for (int row = 0; row < kSide; ++row) rows[row] = hn::LoadU(tag, x + row * columns);
  for (int row = 0; row < kSide; row += kInBlock) turn_blocks(tag, rows + row);
  for (int i = 0; i < kInBlock; ++i) {
    if constexpr (kSide == kInBlock) {
      hn::StoreU(rows[i], tag, turned + i * kRows<T>);
    } else {
      const auto &first = rows[i], &second = rows[kInBlock + i];
      hn::StoreU(hn::ConcatLowerLower(tag, second, first), tag, turned + i * kRows<T>);
      hn::StoreU(hn::ConcatUpperUpper(tag, second, first), tag, turned + (kInBlock + i) * kRows<T>);
    }
  }
}
#endif

/// Up to kRows rows as columns, [columns, kRows]; of rows that are not there zeros.
template <class T>
HWY_INLINE void turn(const T* HWY_RESTRICT x, std::int64_t rows, std::int64_t columns, T* HWY_RESTRICT turned) {
  constexpr auto kSide = static_cast<std::int64_t>(hn::MaxLanes(SquareTag<T>()));
  static_assert(kRows<T> % kSide == 0);
#if HWY_TARGET != HWY_SCALAR
  if (rows == kRows<T> && columns >= kSide) {
    for (std::int64_t row = 0; row < rows; row += kSide) {
      const T* from = x + row * columns;
      for (std::int64_t column = 0; column + kSide <= columns; column += kSide) {
        turn_square(from + column, columns, turned + column * kRows<T> + row);
      }
      // The last square may overlap its neighbour.
      const std::int64_t last = columns - kSide;
      if (columns % kSide != 0) turn_square(from + last, columns, turned + last * kRows<T> + row);
    }
    return;
  }
#endif
  for (std::int64_t column = 0; column < columns; ++column) {
    T* to = turned + column * kRows<T>;
    for (std::int64_t row = 0; row < rows; ++row) to[row] = x[row * columns + column];
    std::fill(to + rows, to + kRows<T>, T{0});
  }
}

/// The highest score so far of each row, and the centroid that it is of.
template <class T>
struct Best {
  using Index = hn::RebindToUnsigned<Tag<T>>;
  HWY_INLINE Best() {}  // that of the compiler would not be of these vectors
  hn::Vec<Tag<T>> score[kRowVectors];
  hn::Vec<Index> centroid[kRowVectors];
};

/// The scores of rows with neighbouring centroids, from `first` on. Of equal ones the first stays; what is not finite
/// is never better: the sums that such a row is added to will tell.
template <int kCentroids, class T>
HWY_INLINE void score(const T* HWY_RESTRICT turned, const CentroidColumns<T>& centroids, std::int64_t first,
                      Best<T>& best, Ahead& ahead_of_all) {
  const Tag<T> tag;
  const typename Best<T>::Index index_tag;
  hn::Vec<Tag<T>> scores[kRowVectors][kCentroids];
  for (int c = 0; c < kCentroids; ++c) {
    const auto offset = hn::Set(tag, centroids.offsets()[first + c]);
    for (auto& of_rows : scores) of_rows[c] = offset;
  }
  const std::int64_t columns = centroids.columns(), count = centroids.count();
  const T* HWY_RESTRICT values = centroids.values() + first;
  Ahead ahead = ahead_of_all;
  for (std::int64_t column = 0; column < columns; ++column, values += count, turned += kRows<T>) {
    ahead.fetch();
    hn::Vec<Tag<T>> x[kRowVectors];
    for (int v = 0; v < kRowVectors; ++v) x[v] = hn::Load(tag, turned + v * kTagLanes<T>);
    for (int c = 0; c < kCentroids; ++c) {
      const auto value = hn::Set(tag, values[c]);
      for (int v = 0; v < kRowVectors; ++v) scores[v][c] = hn::MulAdd(x[v], value, scores[v][c]);
    }
  }
  ahead_of_all = ahead;
  for (int c = 0; c < kCentroids; ++c) {
    const auto number = hn::Set(index_tag, static_cast<hn::TFromD<typename Best<T>::Index>>(first + c));
    for (int v = 0; v < kRowVectors; ++v) {
      const auto better = hn::Gt(scores[v][c], best.score[v]);
      best.score[v] = hn::IfThenElse(better, scores[v][c], best.score[v]);
      best.centroid[v] = hn::IfThenElse(hn::RebindMask(index_tag, better), number, best.centroid[v]);
    }
  }
}

/// As score() with `count` centroids, of which there are at most kCentroids.
template <int kCentroids, class T>
HWY_INLINE void score_some(std::int64_t count, const T* turned, const CentroidColumns<T>& centroids, std::int64_t first,
                           Best<T>& best, Ahead& ahead) {
  if constexpr (kCentroids > 1) {
    if (count < kCentroids) return score_some<kCentroids - 1>(count, turned, centroids, first, best, ahead);
  }
  score<kCentroids>(turned, centroids, first, best, ahead);
}

/// The nearest centroid of each of kRows rows.
template <class T>
HWY_INLINE void find_nearest(const T* turned, const CentroidColumns<T>& centroids, Ahead ahead,
                             std::uint32_t* HWY_RESTRICT labels) {
  const Tag<T> tag;
  const typename Best<T>::Index index_tag;
  Best<T> best;
  for (auto& score : best.score) score = hn::Set(tag, -std::numeric_limits<T>::infinity());
  for (auto& centroid : best.centroid) centroid = hn::Zero(index_tag);
  const std::int64_t count = centroids.count(), groups = (count + kMostCentroids - 1) / kMostCentroids;
  for (std::int64_t group = 0; group < groups; ++group) {
    const std::int64_t first = count * group / groups, end = count * (group + 1) / groups;
    score_some<kMostCentroids>(end - first, turned, centroids, first, best, ahead);
  }
  const hn::Rebind<std::uint32_t, Tag<T>> label_tag;
  for (int v = 0; v < kRowVectors; ++v) {
    hn::Vec<decltype(label_tag)> to_store;
    if constexpr (sizeof(T) == 8) {
      to_store = hn::TruncateTo(label_tag, best.centroid[v]);
    } else {
      to_store = best.centroid[v];
    }
    hn::StoreU(to_store, label_tag, labels + v * kTagLanes<T>);
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

template <class T>
std::int64_t Assign(const T* x, std::int64_t rows, const CentroidColumns<T>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
  const std::int64_t columns = centroids.columns(), stride = padded(columns);
  const auto turned = hwy::AllocateAligned<T>(static_cast<std::size_t>(columns * kRows<T>));
  std::int64_t changed = 0;
  for (std::int64_t first = 0; first < rows; first += kRows<T>) {
    const std::int64_t some = std::min(kRows<T>, rows - first);
    const T* here = x + first * columns;
    turn(here, some, columns, turned.get());
    std::array<std::uint32_t, kRows<T>> nearest;
    const Ahead ahead(here + some * columns, x + std::min(first + 2 * kRows<T>, rows) * columns);
    find_nearest<T>(turned.get(), centroids, ahead, nearest.data());
    for (std::int64_t row = 0; row < some; ++row) {
      const auto label = static_cast<std::int32_t>(nearest[row]);
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

std::int64_t AssignDouble(const double* x, std::int64_t rows, const CentroidColumns<double>& centroids,
                          const double* weights, std::int32_t* labels, ClusterSums sums) {
  return Assign(x, rows, centroids, weights, labels, sums);
}
std::int64_t AssignFloat(const float* x, std::int64_t rows, const CentroidColumns<float>& centroids,
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
CentroidColumns<T>::CentroidColumns(std::span<const double> centroids, std::int64_t count, std::int64_t columns)
    : count_(count),
      columns_(columns),
      values_(static_cast<std::size_t>(columns * count)),
      offsets_(static_cast<std::size_t>(count)) {
  std::vector<double> mean(static_cast<std::size_t>(columns));
  for (std::int64_t c = 0; c < count; ++c) {
    for (std::int64_t d = 0; d < columns; ++d) mean[d] += centroids[c * columns + d] / static_cast<double>(count);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    double offset = 0;
    for (std::int64_t d = 0; d < columns; ++d) {
      const T moved = static_cast<T>(centroids[c * columns + d] - mean[d]);
      values_[d * count + c] = moved;
      offset -= mean[d] * moved + 0.5 * moved * moved;
    }
    offsets_[c] = static_cast<T>(offset);
  }
}
template class CentroidColumns<float>;
template class CentroidColumns<double>;

HWY_EXPORT(AssignDouble);
HWY_EXPORT(AssignFloat);
HWY_EXPORT(DistancesDouble);
HWY_EXPORT(DistancesFloat);

template <>
std::int64_t assign(const double* x, std::int64_t rows, const CentroidColumns<double>& centroids, const double* weights,
                    std::int32_t* labels, ClusterSums sums) {
  return HWY_DYNAMIC_DISPATCH(AssignDouble)(x, rows, centroids, weights, labels, sums);
}
template <>
std::int64_t assign(const float* x, std::int64_t rows, const CentroidColumns<float>& centroids, const double* weights,
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
