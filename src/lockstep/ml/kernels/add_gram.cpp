#include "lockstep/ml/kernels/add_gram.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "lockstep/ml/kernels/ahead.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/add_gram.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows that are made ready before they are multiplied: they stay in the first cache, and sums of so many in registers.
constexpr std::int64_t kRows = 64;
// Columns that are multiplied with a vector of others at once: their sums, too, stay in registers.
constexpr int kMostOthers = HWY_TARGET <= HWY_AVX3 ? 20 : 8;
constexpr int kHalf = kLanes / 2;

/// Where the factors of products lie: rows of `columns` values, `stride` from one to the next.
struct Factors {
  const double* left;
  const double* left_shift;  // is taken from the left ones, [columns] and zeros to the end of a vector
  const double* right;
  std::int64_t columns;
  std::int64_t stride;
  const double* target;  // one more right factor of each row, if it lies elsewhere
};

/// What products are added to: those with column i in row i, with the target and with 1 in rows of their own.
struct Products {
  double* sums;
  std::int64_t stride;
  double* of_target;
  double* of_one;
};

constexpr int kNotOwn = -1;

/// Products of a vector of neighbouring left columns, from `first` on, with kOthers right columns from `other` on.
/// Unless kNotOwn, also with the first kOwn of the same columns, for which half a vector is enough, with 1 and, if
/// kTarget, with the target.
template <int kOwn, bool kTarget, int kOthers>
HWY_NOINLINE void multiply(const Factors& factors, std::int64_t rows, std::int64_t first, std::int64_t other,
                           const Products& to, Ahead& ahead_of_all) {
  const Lanes tag;
  const hn::Half<Lanes> half_tag;
  hn::Vec<Lanes> ones = hn::Zero(tag), of_target = hn::Zero(tag);
  hn::Vec<Lanes> others[kOthers + 1];  // one more than are used: an array has some
  hn::Vec<hn::Half<Lanes>> own[kOwn + 2];
#pragma GCC unroll 32
  for (auto& sum : others) sum = hn::Zero(tag);
  for (auto& sum : own) sum = hn::Zero(half_tag);
  const auto shift = hn::Load(tag, factors.left_shift + first);
  const auto there = hn::FirstN(tag, static_cast<std::size_t>(std::min(kLanes, factors.columns - first)));
  const double* HWY_RESTRICT left = factors.left + first;
  const double* HWY_RESTRICT own_right = factors.right + first;
  const double* HWY_RESTRICT other_right = factors.right + other;
  Ahead ahead = ahead_of_all;
  for (std::int64_t row = 0; row < rows; ++row) {
    ahead.fetch();
    const auto values = hn::Sub(hn::MaskedLoad(there, tag, left), shift);
#pragma GCC unroll 32
    for (int i = 0; i < kOthers; ++i) others[i] = hn::MulAdd(values, hn::Set(tag, other_right[i]), others[i]);
    if constexpr (kOwn != kNotOwn) {
      const auto first_half = hn::LowerHalf(half_tag, values);
      for (int i = 0; i < kOwn; ++i) {
        own[i] = hn::MulAdd(first_half, hn::Set(half_tag, own_right[i]), own[i]);
      }
      ones = hn::Add(values, ones);
      if constexpr (kTarget) of_target = hn::MulAdd(values, hn::Set(tag, factors.target[row]), of_target);
    }
    left += factors.stride;
    own_right += factors.stride;
    other_right += factors.stride;
  }
  ahead_of_all = ahead;
  const auto add = [&](auto of, const auto& products, double* sum)
                       HWY_ATTR { hn::Store(hn::Add(hn::Load(of, sum), products), of, sum); };
#pragma GCC unroll 32
  for (int i = 0; i < kOthers; ++i) add(tag, others[i], to.sums + (other + i) * to.stride + first);
  if constexpr (kOwn != kNotOwn) {
    for (int i = 0; i < kOwn; ++i) add(half_tag, own[i], to.sums + (first + i) * to.stride + first);
    add(tag, ones, to.of_one + first);
    if constexpr (kTarget) add(tag, of_target, to.of_target + first);
  }
}

/// As multiply() with `count` other columns, of which there are at most kOthers.
template <int kOwn, bool kTarget, int kOthers = kMostOthers>
HWY_INLINE void multiply_some(std::int64_t count, const Factors& factors, std::int64_t rows, std::int64_t first,
                              std::int64_t other, const Products& to, Ahead& ahead) {
  if constexpr (kOthers > 0) {
    if (count < kOthers)
      return multiply_some<kOwn, kTarget, kOthers - 1>(count, factors, rows, first, other, to, ahead);
  }
  multiply<kOwn, kTarget, kOthers>(factors, rows, first, other, to, ahead);
}

/// As multiply() with `count` columns of their own, of which there are at most kOwn, and no others.
template <int kOwn, bool kTarget>
HWY_INLINE void multiply_few(std::int64_t count, const Factors& factors, std::int64_t rows, std::int64_t first,
                             const Products& to, Ahead& ahead) {
  if constexpr (kOwn > 1) {
    if (count < kOwn) return multiply_few<kOwn - 1, kTarget>(count, factors, rows, first, to, ahead);
  }
  multiply<kOwn, kTarget, 0>(factors, rows, first, 0, to, ahead);
}

/// Of all pairs of columns.
template <bool kTarget>
HWY_INLINE void multiply_all(const Factors& factors, std::int64_t rows, const Products& to, Ahead ahead) {
  for (std::int64_t first = 0; first < factors.columns; first += kLanes) {
    const std::int64_t left = factors.columns - first;
    if (left < kHalf) return multiply_few<kHalf, kTarget>(left, factors, rows, first, to, ahead);
    std::int64_t other = first + kHalf;
    const auto count = [&] { return std::min<std::int64_t>(factors.columns - other, kMostOthers); };
    multiply_some<kHalf, kTarget>(count(), factors, rows, first, other, to, ahead);
    for (other += kMostOthers; other < factors.columns; other += kMostOthers)
      multiply_some<kNotOwn, false>(count(), factors, rows, first, other, to, ahead);
  }
}

/// x - shift of each row, [rows, stride]. What lies beyond the vectors that hold it stays as it is.
template <class T>
HWY_INLINE void move_columns(const T* HWY_RESTRICT x, std::int64_t rows, std::int64_t columns,
                             const double* HWY_RESTRICT shift, std::int64_t stride, double* HWY_RESTRICT z) {
  const Lanes tag;
  const std::int64_t whole = columns / kLanes * kLanes;
  for (std::int64_t row = 0; row < rows; ++row, x += columns, z += stride) {
    for (std::int64_t column = 0; column < whole; column += kLanes) {
      hn::Store(hn::Sub(load(x + column), hn::LoadU(tag, shift + column)), tag, z + column);
    }
    if (whole == columns) continue;
    const auto value = hn::Sub(load_some(x + whole, columns - whole), load_some(shift + whole, columns - whole));
    hn::Store(value, tag, z + whole);
  }
}

HWY_INLINE void weigh_rows(const double* HWY_RESTRICT z, const double* HWY_RESTRICT weights, std::int64_t rows,
                           std::int64_t stride, double* HWY_RESTRICT weighed) {
  const Lanes tag;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto weight = hn::Set(tag, weights[row]);
    for (std::int64_t i = row * stride; i < (row + 1) * stride; i += kLanes) {
      hn::Store(hn::Mul(hn::Load(tag, z + i), weight), tag, weighed + i);
    }
  }
}

/// Rows are moved, and weighed, where there is room for it.
template <class T>
HWY_INLINE void add_moved(const T* x, const double* targets, const double* weights, std::int64_t rows,
                          const GramShape& shape, const double* shift, double* sums, GramScratch& scratch) {
  const std::int64_t columns = shape.columns, stride = shape.stride(), last = shape.width() - 1;
  const std::int64_t size = kRows * stride;
  double* z = scratch.take((weights == nullptr ? 1 : 2) * size + stride);
  double* weighed = weights == nullptr ? z : z + size;
  double* zeros = weighed + size;
  std::fill(z, zeros + stride, 0.0);
  double* of_one = sums + last * stride;
  const Factors factors{weighed, zeros, z, last, stride, nullptr};
  for (std::int64_t start = 0; start < rows; start += kRows) {
    const std::int64_t some = std::min(kRows, rows - start);
    move_columns(x + start * columns, some, columns, shift, stride, z);
    for (std::int64_t target = 0; target < shape.targets; ++target) {
      const double by = shift[columns + target];
      const double* from = targets + start * shape.targets + target;
      for (std::int64_t row = 0; row < some; ++row) z[row * stride + columns + target] = from[row * shape.targets] - by;
    }
    if (weights != nullptr) weigh_rows(z, weights + start, some, stride, weighed);
    const Ahead ahead(x + std::min(start + kRows, rows) * columns, x + std::min(start + 2 * kRows, rows) * columns);
    multiply_all<false>(factors, some, {sums, stride, nullptr, of_one}, ahead);
    double weight = 0;
    for (std::int64_t row = 0; row < some; ++row) weight += weights == nullptr ? 1 : weights[start + row];
    of_one[last] += weight;
  }
}

/// Sums of (value - shift) and of its square, by eight lanes on every processor.
HWY_INLINE void add_squares(const double* values, std::int64_t rows, double shift, double& sum, double& squares) {
  const Lanes tag;
  hn::Vec<Lanes> sums[2 * kVectors];
  for (auto& one : sums) one = hn::Zero(tag);
  for (std::int64_t row = 0; row < rows; row += 8) {
    for (std::int64_t part = 0; part < kVectors; ++part) {
      const std::int64_t at = row + part * kLanes, some = std::clamp<std::int64_t>(rows - at, 0, kLanes);
      const auto there = hn::FirstN(tag, static_cast<std::size_t>(some));
      const auto value = hn::IfThenElseZero(there, hn::Sub(load_some(values + at, some), hn::Set(tag, shift)));
      sums[part] = hn::Add(value, sums[part]);
      sums[kVectors + part] = hn::MulAdd(value, value, sums[kVectors + part]);
    }
  }
  HWY_ALIGN double lanes[16];
  for (std::int64_t part = 0; part < 2 * kVectors; ++part) hn::Store(sums[part], tag, lanes + part * kLanes);
  for (int lane = 0; lane < 8; ++lane) {
    sum += lanes[lane];
    squares += lanes[8 + lane];
  }
}

/// Rows are multiplied where they lie, the left factors of products moved: what that leaves, shift times sum, is taken
/// off at the end.
HWY_INLINE void add_in_place(const double* x, const double* targets, std::int64_t rows, const GramShape& shape,
                             const double* shift, double* sums, GramScratch& scratch) {
  const std::int64_t columns = shape.columns, stride = shape.stride(), last = shape.width() - 1;
  double* left_shift = scratch.take(2 * stride);
  double* of_one = left_shift + stride;
  std::fill_n(left_shift, 2 * stride, 0.0);
  std::copy_n(shift, columns, left_shift);
  const Products products{sums, stride, sums + columns * stride, of_one};
  for (std::int64_t start = 0; start < rows; start += kRows) {
    const std::int64_t some = std::min(kRows, rows - start);
    const double* here = x + start * columns;
    const Ahead ahead(here + some * columns, x + std::min(start + 2 * kRows, rows) * columns);
    if (shape.targets == 0) {
      multiply_all<false>({here, left_shift, here, columns, columns, nullptr}, some, products, ahead);
    } else {
      multiply_all<true>({here, left_shift, here, columns, columns, targets + start}, some, products, ahead);
    }
  }
  for (std::int64_t row = 0; row < last; ++row) {
    for (std::int64_t column = 0; column < std::min(row + 1, columns); ++column) {
      sums[row * stride + column] -= shift[row] * of_one[column];
    }
  }
  if (shape.targets == 1) add_squares(targets, rows, shift[columns], of_one[columns], sums[columns * stride + columns]);
  of_one[last] = static_cast<double>(rows);
  for (std::int64_t column = 0; column <= last; ++column) sums[last * stride + column] += of_one[column];
}

template <class T>
void AddGram(const T* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
             GramShift shift, double* sums, GramScratch& scratch) {
  if constexpr (sizeof(T) == sizeof(double)) {
    if (shift.small && weights == nullptr && shape.targets <= 1) {
      return add_in_place(x, targets, rows, shape, shift.values, sums, scratch);
    }
  }
  add_moved(x, targets, weights, rows, shape, shift.values, sums, scratch);
}

void AddGramDouble(const double* x, const double* targets, const double* weights, std::int64_t rows,
                   const GramShape& shape, GramShift shift, double* sums, GramScratch& scratch) {
  AddGram(x, targets, weights, rows, shape, shift, sums, scratch);
}
void AddGramFloat(const float* x, const double* targets, const double* weights, std::int64_t rows,
                  const GramShape& shape, GramShift shift, double* sums, GramScratch& scratch) {
  AddGram(x, targets, weights, rows, shape, shift, sums, scratch);
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ml {

void GramScratch::Free::operator()(double* memory) const noexcept { std::free(memory); }

double* GramScratch::take(std::int64_t doubles) {
  if (doubles > doubles_) {
    constexpr std::size_t kLine = 64;
    const std::size_t bytes = (static_cast<std::size_t>(doubles) * sizeof(double) + kLine - 1) / kLine * kLine;
    memory_.reset(static_cast<double*>(std::aligned_alloc(kLine, bytes)));
    if (!memory_) throw std::bad_alloc();
    doubles_ = doubles;
  }
  return memory_.get();
}

HWY_EXPORT(AddGramDouble);
HWY_EXPORT(AddGramFloat);

template <>
void add_gram(const double* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
              GramShift shift, double* sums, GramScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddGramDouble)(x, targets, weights, rows, shape, shift, sums, scratch);
}
template <>
void add_gram(const float* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
              GramShift shift, double* sums, GramScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddGramFloat)(x, targets, weights, rows, shape, shift, sums, scratch);
}

}  // namespace lockstep::ml
#endif
