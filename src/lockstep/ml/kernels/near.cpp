#include "lockstep/ml/kernels/near.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ml/kernels/near.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::ml::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using PanelTag = hn::CappedTag<T, 64 / sizeof(T)>;
template <class T>
constexpr std::size_t kVectorsOfPanel = 64 / sizeof(T) / hn::MaxLanes(PanelTag<T>());
/// That hold scores.
constexpr std::size_t kScores = HWY_TARGET <= HWY_AVX3 ? 24 : 12;

/// The scores of kTile rows with kPanels neighbouring panels stay in registers from the first column to the last.
template <std::size_t kTile, std::size_t kPanels, class T>
HWY_INLINE void find_in_tile(const T* HWY_RESTRICT x, const T* offsets, std::int32_t row, const QueryPanels<T>& queries,
                             std::int64_t panel, std::vector<NearPair>& found) {
  const PanelTag<T> tag;
  using Vector = hn::Vec<PanelTag<T>>;
  constexpr std::size_t kEach = kVectorsOfPanel<T>;
  constexpr std::size_t kLanesOfTag = hn::MaxLanes(PanelTag<T>());
  constexpr std::size_t kWidth = 64 / sizeof(T);
  const std::int64_t columns = queries.columns();

  Vector scores[kTile][kPanels * kEach];
  for (std::size_t r = 0; r < kTile; ++r) {
    const auto offset = hn::Set(tag, offsets[r]);
    for (auto& score : scores[r]) score = offset;
  }
  const T* values = queries.panel(panel);
  const std::int64_t next_panel = columns * static_cast<std::int64_t>(kWidth);
  for (std::int64_t column = 0; column < columns; ++column, values += kWidth) {
    Vector q[kPanels * kEach];
    for (std::size_t p = 0; p < kPanels; ++p) {
      for (std::size_t v = 0; v < kEach; ++v) {
        q[p * kEach + v] = hn::Load(tag, values + static_cast<std::int64_t>(p) * next_panel + v * kLanesOfTag);
      }
    }
    for (std::size_t r = 0; r < kTile; ++r) {
      const auto value = hn::Set(tag, x[static_cast<std::int64_t>(r) * columns + column]);
      for (std::size_t v = 0; v < kPanels * kEach; ++v) scores[r][v] = hn::MulAdd(value, q[v], scores[r][v]);
    }
  }
  const T* least = queries.least() + panel * static_cast<std::int64_t>(kWidth);
  for (std::size_t r = 0; r < kTile; ++r) {
    for (std::size_t v = 0; v < kPanels * kEach; ++v) {
      // What overflowed to no number is found, too.
      const auto near = hn::Not(hn::Lt(scores[r][v], hn::Load(tag, least + v * kLanesOfTag)));
      if (HWY_LIKELY(hn::AllFalse(tag, near))) continue;
      HWY_ALIGN std::uint8_t bits[8] = {};
      hn::StoreMaskBits(tag, near, bits);
      const auto first = static_cast<std::int32_t>(panel * static_cast<std::int64_t>(kWidth) + v * kLanesOfTag);
      for (std::size_t lane = 0; lane < kLanesOfTag; ++lane) {
        const auto query = first + static_cast<std::int32_t>(lane);
        const bool set = (bits[lane / 8] >> lane % 8 & 1) != 0;
        if (set && query < queries.count()) found.push_back({row + static_cast<std::int32_t>(r), query});
      }
    }
  }
}

/// All rows with kPanels panels.
template <std::size_t kPanels, class T>
HWY_INLINE void find_in_panels(const MovedRows<T>& rows, const QueryPanels<T>& queries, std::int64_t panel,
                               std::vector<NearPair>& found) {
  constexpr std::size_t kTile = std::max<std::size_t>(kScores / (kPanels * kVectorsOfPanel<T>), 1);
  std::int64_t row = 0;
  const auto find = [&]<std::size_t kRows>(std::integral_constant<std::size_t, kRows>) HWY_ATTR {
    find_in_tile<kRows, kPanels>(rows.values() + row * queries.columns(), rows.offsets() + row,
                                 static_cast<std::int32_t>(row), queries, panel, found);
    row += static_cast<std::int64_t>(kRows);
  };
  while (row + static_cast<std::int64_t>(kTile) <= rows.count()) find(std::integral_constant<std::size_t, kTile>());
  while (row < rows.count()) find(std::integral_constant<std::size_t, 1>());
}

template <class T>
HWY_INLINE void FindNear(const MovedRows<T>& rows, const QueryPanels<T>& queries, std::vector<NearPair>& found) {
  constexpr std::size_t kAtOnce = kScores >= 24 * kVectorsOfPanel<T> ? 4 : kVectorsOfPanel<T> <= 2 ? 2 : 1;
  std::int64_t panel = 0;
  for (; panel + static_cast<std::int64_t>(kAtOnce) <= queries.panels(); panel += kAtOnce) {
    find_in_panels<kAtOnce>(rows, queries, panel, found);
  }
  for (; panel < queries.panels(); ++panel) find_in_panels<1>(rows, queries, panel, found);
}

void FindNearDouble(const MovedRows<double>& rows, const QueryPanels<double>& queries, std::vector<NearPair>& found) {
  FindNear(rows, queries, found);
}
void FindNearFloat(const MovedRows<float>& rows, const QueryPanels<float>& queries, std::vector<NearPair>& found) {
  FindNear(rows, queries, found);
}

}  // namespace lockstep::ml::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::ml {
namespace {

/// |x - q|² is |x|² + |q|² - 2x·q, and rounding is off by less than this share of |x|² + |q|²: one unit for each
/// addition and product, and some for the moving.
template <class T>
double slack(std::int64_t columns) {
  return 2.0 * static_cast<double>(columns + 8) * static_cast<double>(std::numeric_limits<T>::epsilon());
}

}  // namespace

// A row is near if x·q - (1-s)|x|²/2 is at least ((1-s)|q|² - (1+s)reach)/2.
template <class T>
QueryPanels<T>::QueryPanels(const T* queries, std::int64_t count, std::int64_t columns, const T* shift)
    : count_(count), columns_(columns), norms_(static_cast<std::size_t>(count)) {
  const std::int64_t panels = (count + kWidth - 1) / kWidth;
  lines_.resize(static_cast<std::size_t>(panels * columns));
  least_.resize(static_cast<std::size_t>(panels));
  for (std::int64_t query = 0; query < count; ++query) {
    double& norm = norms_[static_cast<std::size_t>(query)];
    for (std::int64_t column = 0; column < columns; ++column) {
      const T moved = queries[query * columns + column] - shift[column];
      lines_[static_cast<std::size_t>(query / kWidth * columns + column)].values[query % kWidth] = moved;
      norm += static_cast<double>(moved) * static_cast<double>(moved);
    }
    set_reach(query, std::numeric_limits<double>::infinity());
  }
}

template <class T>
void QueryPanels<T>::set_reach(std::int64_t query, double squared) {
  const double s = slack<T>(columns_);
  // What underflows is lost beside the shares.
  const double lost = static_cast<double>(columns_ + 8) * static_cast<double>(std::numeric_limits<T>::min());
  const double least = ((1 - s) * norms_[static_cast<std::size_t>(query)] - (1 + s) * squared) / 2 - lost;
  const bool fits = std::abs(least) < static_cast<double>(std::numeric_limits<T>::max());
  least_[static_cast<std::size_t>(query / kWidth)].values[query % kWidth] =
      fits ? static_cast<T>(least) : -std::numeric_limits<T>::infinity();
}

template <class T>
void QueryPanels<T>::drop(std::int64_t query) {
  least_[static_cast<std::size_t>(query / kWidth)].values[query % kWidth] = std::numeric_limits<T>::infinity();
}
template class QueryPanels<float>;
template class QueryPanels<double>;

template <class T>
void MovedRows<T>::take(const T* rows, std::int64_t count, std::int64_t columns, const T* shift) {
  values_.resize(static_cast<std::size_t>(count * columns));
  offsets_.resize(static_cast<std::size_t>(count));
  const double share = (1 - slack<T>(columns)) / 2;
  for (std::int64_t row = 0; row < count; ++row) {
    T* moved = values_.data() + row * columns;
    double norm = 0;
    for (std::int64_t column = 0; column < columns; ++column) {
      moved[column] = rows[row * columns + column] - shift[column];
      norm += static_cast<double>(moved[column]) * static_cast<double>(moved[column]);
    }
    const bool fits = share * norm < static_cast<double>(std::numeric_limits<T>::max());
    offsets_[static_cast<std::size_t>(row)] = fits ? static_cast<T>(-share * norm) : std::numeric_limits<T>::infinity();
  }
}
template class MovedRows<float>;
template class MovedRows<double>;

HWY_EXPORT(FindNearDouble);
HWY_EXPORT(FindNearFloat);

template <>
void find_near(const MovedRows<double>& rows, const QueryPanels<double>& queries, std::vector<NearPair>& found) {
  HWY_DYNAMIC_DISPATCH(FindNearDouble)(rows, queries, found);
}
template <>
void find_near(const MovedRows<float>& rows, const QueryPanels<float>& queries, std::vector<NearPair>& found) {
  HWY_DYNAMIC_DISPATCH(FindNearFloat)(rows, queries, found);
}

}  // namespace lockstep::ml
#endif
