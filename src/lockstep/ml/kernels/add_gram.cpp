#include "lockstep/ml/kernels/add_gram.h"

#include <algorithm>
#include <cmath>
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
constexpr int kMostOthers = HWY_TARGET <= HWY_AVX3 ? 16 : 8;

/// The columns of z of each row, times `factors` if they are weighted: [rows, stride].
template <bool kWeighted, class T>
HWY_INLINE void move_columns(const T* HWY_RESTRICT x, const double* factors, std::int64_t rows, std::int64_t columns,
                             const double* HWY_RESTRICT shift, std::int64_t stride, double* HWY_RESTRICT z) {
  const Lanes tag;
  const std::int64_t whole = columns / kLanes * kLanes;
  const auto rest = hn::FirstN(tag, static_cast<std::size_t>(columns - whole));
  for (std::int64_t row = 0; row < rows; ++row, x += columns, z += stride) {
    const auto factor = hn::Set(tag, kWeighted ? factors[row] : 1);
    for (std::int64_t column = 0; column < whole; column += kLanes) {
      const auto value = hn::Sub(load(x + column), hn::LoadU(tag, shift + column));
      hn::Store(kWeighted ? hn::Mul(value, factor) : value, tag, z + column);
    }
    if (whole == columns) continue;
    const auto value = hn::Sub(load_some(x + whole, columns - whole), load_some(shift + whole, columns - whole));
    hn::BlendedStore(kWeighted ? hn::Mul(value, factor) : value, rest, tag, z + whole);
  }
}

/// z of each row. What lies beyond it stays as it is.
template <class T>
HWY_INLINE void make_ready(const T* x, const double* targets, const double* factors, std::int64_t rows,
                           const GramShape& shape, const double* shift, double* z) {
  const std::int64_t columns = shape.columns, stride = shape.stride();
  if (factors == nullptr) {
    move_columns<false>(x, factors, rows, columns, shift, stride, z);
  } else {
    move_columns<true>(x, factors, rows, columns, shift, stride, z);
    for (std::int64_t row = 0; row < rows; ++row) z[row * stride + shape.width() - 1] = factors[row];
  }
  for (std::int64_t target = 0; target < shape.targets; ++target) {
    const double by = shift[columns + target];
    for (std::int64_t row = 0; row < rows; ++row) {
      const double value = targets[row * shape.targets + target] - by;
      z[row * stride + columns + target] = factors == nullptr ? value : value * factors[row];
    }
  }
}

/// Products of a vector of neighbouring columns, from `first` on, with kOthers columns from `other` on, and, if kOwn,
/// with each other: of the first half half a vector is enough.
template <bool kOwn, int kOthers>
HWY_INLINE void multiply(const double* HWY_RESTRICT z, std::int64_t rows, std::int64_t stride, std::int64_t first,
                         std::int64_t other, double* HWY_RESTRICT sums, Ahead& ahead_of_all) {
  const Lanes tag;
  const hn::Half<Lanes> half_tag;
  constexpr std::int64_t kHalf = kLanes / 2;
  hn::Vec<Lanes> own[kHalf + 1], others[kOthers + 1];  // one more than are used: an array has some
  hn::Vec<hn::Half<Lanes>> own_half[kHalf + 1];
  for (auto& sum : own) sum = hn::Zero(tag);
  for (auto& sum : others) sum = hn::Zero(tag);
  for (auto& sum : own_half) sum = hn::Zero(half_tag);
  const double* HWY_RESTRICT left = z + first;
  const double* HWY_RESTRICT right = z + other;
  Ahead ahead = ahead_of_all;
  for (std::int64_t row = 0; row < rows; ++row, left += stride, right += stride) {
    ahead.fetch();
    const auto values = hn::Load(tag, left);
    for (int i = 0; i < kOthers; ++i) others[i] = hn::MulAdd(values, hn::Set(tag, right[i]), others[i]);
    if constexpr (kOwn) {
      const auto first_half = hn::LowerHalf(half_tag, values);
      for (std::int64_t i = 0; i < kHalf; ++i) {
        own_half[i] = hn::MulAdd(first_half, hn::Set(half_tag, left[i]), own_half[i]);
        own[i] = hn::MulAdd(values, hn::Set(tag, left[kHalf + i]), own[i]);
      }
    }
  }
  ahead_of_all = ahead;
  const auto add = [&](auto of, const auto& products, std::int64_t row, std::int64_t column) HWY_ATTR {
    double* sum = sums + row * stride + column;
    hn::Store(hn::Add(hn::Load(of, sum), products), of, sum);
  };
  for (int i = 0; i < kOthers; ++i) add(tag, others[i], other + i, first);
  if constexpr (kOwn) {
    for (std::int64_t i = 0; i < kHalf; ++i) {
      add(half_tag, own_half[i], first + i, first);
      add(tag, own[i], first + kHalf + i, first);
    }
  }
}

/// As multiply(), with `count` other columns, or one more, which is 0.
template <bool kOwn, int kOthers = kMostOthers>
HWY_INLINE void multiply_some(int count, const double* z, std::int64_t rows, std::int64_t stride, std::int64_t first,
                              std::int64_t other, double* sums, Ahead& ahead) {
  if constexpr (kOthers > 0) {
    if (count <= kOthers - 2)
      return multiply_some<kOwn, kOthers - 2>(count, z, rows, stride, first, other, sums, ahead);
  }
  multiply<kOwn, kOthers>(z, rows, stride, first, other, sums, ahead);
}

template <class T>
void AddGram(const T* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
             const double* shift, double* sums, GramScratch& scratch) {
  const std::int64_t stride = shape.stride(), width = shape.width();
  double* z = scratch.take(kRows * stride + kRows);
  double* factors = z + kRows * stride;
  std::fill_n(z, kRows * stride, 0.0);
  for (std::int64_t row = 0; row < kRows; ++row) z[row * stride + width - 1] = 1;
  for (std::int64_t start = 0; start < rows; start += kRows) {
    const std::int64_t some = std::min(kRows, rows - start);
    if (weights != nullptr) {
      for (std::int64_t row = 0; row < some; ++row) factors[row] = std::sqrt(weights[start + row]);
    }
    make_ready(x + start * shape.columns, targets + start * shape.targets, weights == nullptr ? nullptr : factors, some,
               shape, shift, z);
    Ahead ahead(x + std::min(start + kRows, rows) * shape.columns,
                x + std::min(start + 2 * kRows, rows) * shape.columns);
    for (std::int64_t first = 0; first < width; first += kLanes) {
      std::int64_t other = first + kLanes;
      const auto count = [&] { return static_cast<int>(std::clamp<std::int64_t>(width - other, 0, kMostOthers)); };
      multiply_some<true>(count(), z, some, stride, first, other, sums, ahead);
      for (other += kMostOthers; other < width; other += kMostOthers)
        multiply_some<false>(count(), z, some, stride, first, other, sums, ahead);
    }
  }
}

void AddGramDouble(const double* x, const double* targets, const double* weights, std::int64_t rows,
                   const GramShape& shape, const double* shift, double* sums, GramScratch& scratch) {
  AddGram(x, targets, weights, rows, shape, shift, sums, scratch);
}
void AddGramFloat(const float* x, const double* targets, const double* weights, std::int64_t rows,
                  const GramShape& shape, const double* shift, double* sums, GramScratch& scratch) {
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
              const double* shift, double* sums, GramScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddGramDouble)(x, targets, weights, rows, shape, shift, sums, scratch);
}
template <>
void add_gram(const float* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
              const double* shift, double* sums, GramScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AddGramFloat)(x, targets, weights, rows, shape, shift, sums, scratch);
}

}  // namespace lockstep::ml
#endif
