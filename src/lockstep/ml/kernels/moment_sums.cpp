#include "lockstep/ml/kernels/moment_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/moment_sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

/// A line is so many neighbouring rows that their values are a multiple of eight: no vector is filled in part, and each
/// lane is of one column. Lanes are summed by themselves and go to their columns in the end.
struct Lines {
  explicit Lines(std::int64_t columns) : rows(8 / std::gcd(std::int64_t{8}, columns)), wide(rows * columns) {}

  std::int64_t rows;  // of a line
  std::int64_t wide;  // values of a line
};

/// By lane, [wide] each.
struct OfLanes {
  double *count, *weight, *sum, *squares, *least, *greatest;
  const double* shift;
};

/// One vector of a panel, over the lines that are in the cache.
class Sums {
 public:
  HWY_INLINE Sums(const OfLanes& lanes, std::int64_t place)
      : shift_(hn::LoadU(Lanes(), lanes.shift + place)),
        count_(hn::LoadU(Lanes(), lanes.count + place)),
        weight_(hn::LoadU(Lanes(), lanes.weight + place)),
        sum_(hn::LoadU(Lanes(), lanes.sum + place)),
        squares_(hn::LoadU(Lanes(), lanes.squares + place)),
        least_(hn::LoadU(Lanes(), lanes.least + place)),
        greatest_(hn::LoadU(Lanes(), lanes.greatest + place)) {}

  template <bool kWeighted>
  HWY_INLINE void add(hn::Vec<Lanes> raw, hn::Vec<Lanes> weight) {
    const auto zero = hn::Zero(Lanes());
    auto taken = hn::Eq(hn::Sub(raw, raw), zero);  // neither NaN nor infinite
    if (kWeighted) taken = hn::And(taken, hn::Gt(weight, zero));
    // The shift stands in for what is left out: it adds nothing.
    const auto value = hn::IfThenElse(taken, raw, shift_);
    const auto moved = hn::Sub(value, shift_);
    auto weighted = moved;
    if (kWeighted) {
      weighted = hn::Mul(weight, moved);
      weight_ = hn::Add(weight_, hn::IfThenElseZero(taken, weight));
    }
    count_ = hn::Add(count_, hn::IfThenElseZero(taken, hn::Set(Lanes(), 1.0)));
    sum_ = hn::Add(sum_, weighted);
    squares_ = hn::MulAdd(weighted, moved, squares_);
    least_ = hn::Min(least_, value);
    greatest_ = hn::Max(greatest_, value);
  }

  HWY_INLINE void store(const OfLanes& lanes, std::int64_t place) const {
    hn::StoreU(count_, Lanes(), lanes.count + place);
    hn::StoreU(weight_, Lanes(), lanes.weight + place);
    hn::StoreU(sum_, Lanes(), lanes.sum + place);
    hn::StoreU(squares_, Lanes(), lanes.squares + place);
    hn::StoreU(least_, Lanes(), lanes.least + place);
    hn::StoreU(greatest_, Lanes(), lanes.greatest + place);
  }

 private:
  hn::Vec<Lanes> shift_, count_, weight_, sum_, squares_, least_, greatest_;
};

/// A vector of each of `lines` lines, whose values begin at `x` and are `wide` apart. `weights` lie as the values do.
template <bool kWeighted, class T>
HWY_INLINE void add_lines(const T* HWY_RESTRICT x, const double* HWY_RESTRICT weights, std::int64_t lines,
                          std::int64_t wide, const OfLanes& lanes, std::int64_t place, const char* next) {
  Sums sums(lanes, place);
  for (std::int64_t line = 0; line < lines; ++line) {
    __builtin_prefetch(next + line * kLanes * static_cast<std::int64_t>(sizeof(T)));
    const std::int64_t at = line * wide + place;
    sums.add<kWeighted>(load(x + at), kWeighted ? hn::LoadU(Lanes(), weights + at) : hn::Zero(Lanes()));
  }
  sums.store(lanes, place);
}

/// Rows that fill no line.
template <class T>
void add_rest(const T* x, const double* weights, std::int64_t rows, std::int64_t columns, const OfLanes& lanes) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const double factor = weights == nullptr ? 1 : weights[row];
    for (std::int64_t column = 0; column < columns; ++column) {
      const double value = x[row * columns + column];
      if (!std::isfinite(value) || !(factor > 0)) continue;
      const double moved = value - lanes.shift[column];
      lanes.count[column] += 1;
      lanes.weight[column] += factor;
      lanes.sum[column] += factor * moved;
      lanes.squares[column] += factor * moved * moved;
      lanes.least[column] = std::min(lanes.least[column], value);
      lanes.greatest[column] = std::max(lanes.greatest[column], value);
    }
  }
}

template <class T>
void SumMoments(const T* x, const double* weights, std::int64_t rows, std::int64_t columns, const double* shift,
                const MomentSums& sums) {
  const Lines shape(columns);
  const std::int64_t wide = shape.wide;
  std::vector<double> memory(static_cast<std::size_t>(7 * wide));
  double* own = memory.data();
  const OfLanes lanes{own, own + wide, own + 2 * wide, own + 3 * wide, own + 4 * wide, own + 5 * wide, own + 6 * wide};
  for (std::int64_t lane = 0; lane < wide; ++lane) own[6 * wide + lane] = shift[lane % columns];
  std::copy_n(lanes.shift, wide, lanes.least);
  std::copy_n(lanes.shift, wide, lanes.greatest);
  // So many lines at once that they stay in the first cache; the next ones are on their way.
  constexpr std::int64_t kValues = 2048, kFewest = 8;
  const std::int64_t at_once = std::max(kFewest, kValues / wide), lines = rows / shape.rows;
  std::vector<double> spread(weights == nullptr ? 0 : static_cast<std::size_t>(at_once * wide));
  for (std::int64_t first = 0; first < lines; first += at_once) {
    const std::int64_t some = std::min(at_once, lines - first);
    const T* here = x + first * wide;
    if (weights != nullptr) {
      for (std::int64_t row = 0; row < some * shape.rows; ++row) {
        std::fill_n(spread.data() + row * columns, columns, weights[first * shape.rows + row]);
      }
    }
    const bool more = first + 2 * at_once <= lines;
    for (std::int64_t place = 0; place < wide; place += kLanes) {
      const T* next = more ? here + at_once * wide + place * some : here;
      const char* ahead = reinterpret_cast<const char*>(next);
      weights == nullptr ? add_lines<false>(here, nullptr, some, wide, lanes, place, ahead)
                         : add_lines<true>(here, spread.data(), some, wide, lanes, place, ahead);
    }
  }
  // Without weights they are all 1.
  if (weights == nullptr) std::copy_n(lanes.count, wide, lanes.weight);
  const std::int64_t done = lines * shape.rows;
  add_rest(x + done * columns, weights == nullptr ? nullptr : weights + done, rows - done, columns, lanes);
  for (std::int64_t column = 0; column < columns; ++column) {
    const auto total = [&](const double* of) {
      double result = of[column];
      for (std::int64_t lane = column + columns; lane < wide; lane += columns) result += of[lane];
      return result;
    };
    sums.count[column] = total(lanes.count);
    sums.weight[column] = total(lanes.weight);
    sums.sum[column] = total(lanes.sum);
    sums.squares[column] = total(lanes.squares);
    sums.least[column] = lanes.least[column];
    sums.greatest[column] = lanes.greatest[column];
    for (std::int64_t lane = column + columns; lane < wide; lane += columns) {
      sums.least[column] = std::min(sums.least[column], lanes.least[lane]);
      sums.greatest[column] = std::max(sums.greatest[column], lanes.greatest[lane]);
    }
  }
}

void SumMomentsDouble(const double* x, const double* weights, std::int64_t rows, std::int64_t columns,
                      const double* shift, const MomentSums& sums) {
  SumMoments(x, weights, rows, columns, shift, sums);
}
void SumMomentsFloat(const float* x, const double* weights, std::int64_t rows, std::int64_t columns,
                     const double* shift, const MomentSums& sums) {
  SumMoments(x, weights, rows, columns, shift, sums);
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ml {

HWY_EXPORT(SumMomentsDouble);
HWY_EXPORT(SumMomentsFloat);

template <>
void moment_sums(const double* x, const double* weights, std::int64_t rows, std::int64_t columns, const double* shift,
                 const MomentSums& sums) {
  HWY_DYNAMIC_DISPATCH(SumMomentsDouble)(x, weights, rows, columns, shift, sums);
}
template <>
void moment_sums(const float* x, const double* weights, std::int64_t rows, std::int64_t columns, const double* shift,
                 const MomentSums& sums) {
  HWY_DYNAMIC_DISPATCH(SumMomentsFloat)(x, weights, rows, columns, shift, sums);
}

}  // namespace lockstep::ml
#endif
