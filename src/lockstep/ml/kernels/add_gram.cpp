#include "lockstep/ml/kernels/add_gram.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/add_gram.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ml/kernels/load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

// Rows whose panels are made before they are multiplied: they stay in the second cache, and sums of so many stay in
// registers.
constexpr std::int64_t kRows = 128;

/// Row by row eight neighbouring values of z, times `factors` if there are any.
template <class T>
HWY_INLINE void pack(const T* x, const double* targets, const double* factors, std::int64_t rows,
                     const GramShape& shape, const double* shift, std::int64_t panel, double* HWY_RESTRICT packed) {
  const Lanes tag;
  const std::int64_t first = panel * 8, columns = shape.columns;
  hn::Vec<Lanes> moved[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v)
    moved[v] = load_some(shift + first + v * kLanes, std::max<std::int64_t>(columns - first - v * kLanes, 0));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t v = 0; v < kVectors; ++v) {
      const std::int64_t place = first + v * kLanes;
      const T* here = x + row * columns + place;
      auto value = hn::Zero(tag);
      if (place + kLanes <= columns) {
        value = hn::Sub(load(here), moved[v]);
      } else if (place < columns) {
        value = hn::Sub(load_some(here, columns - place), moved[v]);
      }
      if (factors != nullptr) value = hn::Mul(value, hn::Set(tag, factors[row]));
      hn::Store(value, tag, packed + row * 8 + v * kLanes);
    }
  }
  for (std::int64_t place = std::max(first, columns); place < std::min(first + 8, shape.width()); ++place) {
    const std::int64_t target = place - columns;
    for (std::int64_t row = 0; row < rows; ++row) {
      const double value = target < shape.targets ? targets[row * shape.targets + target] - shift[place] : 1;
      packed[row * 8 + place - first] = factors == nullptr ? value : value * factors[row];
    }
  }
}

/// Rows that are needed next: on their way while products are made. None: row_bytes is 0.
struct Ahead {
  const char* rows = nullptr;
  std::int64_t row_bytes = 0;
};

/// Products of kI values from `left` on with kPanels neighbouring panels from `right` on, over all rows.
template <int kI, int kPanels>
HWY_INLINE void multiply(const double* HWY_RESTRICT left, const double* HWY_RESTRICT right, std::int64_t panel_size,
                         std::int64_t rows, std::int64_t stride, double* HWY_RESTRICT sums, Ahead ahead) {
  const Lanes tag;
  constexpr std::int64_t kWide = kPanels * kVectors;
  hn::Vec<Lanes> products[kI][kWide];
  for (auto& row : products) {
    for (auto& product : row) product = hn::Zero(tag);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    hn::Vec<Lanes> z[kWide];
    for (std::int64_t panel = 0; panel < kPanels; ++panel) {
      for (std::int64_t v = 0; v < kVectors; ++v) {
        z[panel * kVectors + v] = hn::Load(tag, right + panel * panel_size + row * 8 + v * kLanes);
      }
    }
    for (std::int64_t line = 0; line < ahead.row_bytes; line += 64)
      __builtin_prefetch(ahead.rows + row * ahead.row_bytes + line);
    for (std::int64_t i = 0; i < kI; ++i) {
      const auto value = hn::Set(tag, left[row * 8 + i]);
      for (std::int64_t v = 0; v < kWide; ++v) products[i][v] = hn::MulAdd(value, z[v], products[i][v]);
    }
  }
  for (std::int64_t i = 0; i < kI; ++i) {
    for (std::int64_t v = 0; v < kWide; ++v) {
      double* sum = sums + i * stride + v * kLanes;
      hn::Store(hn::Add(hn::Load(tag, sum), products[i][v]), tag, sum);
    }
  }
}

/// kI values from place `i` on with the panels from theirs on.
template <int kI, int kMostPanels>
HWY_INLINE void multiply_rows(const double* packed, std::int64_t panel_size, std::int64_t rows, const GramShape& shape,
                              std::int64_t i, double* sums, Ahead ahead) {
  const std::int64_t stride = shape.stride(), panels = stride / 8;
  const double* left = packed + (i / 8) * panel_size + i % 8;
  std::int64_t panel = i / 8;
  while (panel < panels) {
    const double* right = packed + panel * panel_size;
    double* target = sums + i * stride + panel * 8;
    const std::int64_t rest = panels - panel;
    if (kMostPanels >= 3 && rest >= 3) {
      multiply<kI, kMostPanels >= 3 ? 3 : 1>(left, right, panel_size, rows, stride, target,
                                             panel == i / 8 ? ahead : Ahead());
      panel += 3;
    } else if (kMostPanels >= 2 && rest >= 2) {
      multiply<kI, kMostPanels >= 2 ? 2 : 1>(left, right, panel_size, rows, stride, target,
                                             panel == i / 8 ? ahead : Ahead());
      panel += 2;
    } else {
      multiply<kI, 1>(left, right, panel_size, rows, stride, target, panel == i / 8 ? ahead : Ahead());
      panel += 1;
    }
  }
}

template <class T>
void AddGram(const T* x, const double* targets, const double* weights, std::int64_t rows, const GramShape& shape,
             const double* shift, double* sums, GramScratch& scratch) {
  constexpr int kMostPanels = HWY_TARGET <= HWY_AVX3 ? 3 : 1;
  constexpr int kI = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  const std::int64_t panels = shape.stride() / 8;
  constexpr std::int64_t kPanelSize = kRows * 8;
  double* packed = scratch.take(panels * kPanelSize + kRows);
  double* factors = packed + panels * kPanelSize;
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t some = std::min(kRows, rows - first);
    if (weights != nullptr) {
      for (std::int64_t row = 0; row < some; ++row) factors[row] = std::sqrt(weights[first + row]);
    }
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      pack(x + first * shape.columns, targets + first * shape.targets, weights == nullptr ? nullptr : factors, some,
           shape, shift, panel, packed + panel * kPanelSize);
    }
    const bool more = first + 2 * kRows <= rows;
    const Ahead ahead = more ? Ahead{reinterpret_cast<const char*>(x + (first + kRows) * shape.columns),
                                     shape.columns * static_cast<std::int64_t>(sizeof(T))}
                             : Ahead();
    std::int64_t i = 0;
    for (; i + kI <= shape.width(); i += kI)
      multiply_rows<kI, kMostPanels>(packed, kPanelSize, some, shape, i, sums, i == 0 ? ahead : Ahead());
    for (; i + 2 <= shape.width(); i += 2)
      multiply_rows<2, kMostPanels>(packed, kPanelSize, some, shape, i, sums, i == 0 ? ahead : Ahead());
    for (; i < shape.width(); ++i)
      multiply_rows<1, kMostPanels>(packed, kPanelSize, some, shape, i, sums, i == 0 ? ahead : Ahead());
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
