#include "lockstep/ml/quantiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include <ATen/ops/empty.h>

#include "lockstep/core/random.h"

namespace lockstep::ml {
namespace {

constexpr std::uint64_t kSeed = 0x71a2;

/// Of one column: how many values there are, and of them all or `most`, in order, each for equally many.
class Sketch {
 public:
  Sketch(const double* words, std::int64_t most) : words_(words), most_(most) {}

  double count() const noexcept { return words_[0]; }
  bool exact() const noexcept { return count() <= static_cast<double>(most_); }
  std::span<const double> values() const noexcept {
    return {words_ + 1, static_cast<std::size_t>(exact() ? static_cast<std::int64_t>(count()) : most_)};
  }
  /// Values that each of them stands for.
  double weight() const noexcept { return exact() ? 1 : count() / static_cast<double>(most_); }

  double quantile(double share) const {
    const auto all = values();
    if (all.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto last = static_cast<double>(all.size() - 1);
    // A value of many stands in their middle.
    const double place = exact() ? share * last : std::clamp(share * static_cast<double>(most_) - 0.5, 0.0, last);
    const auto below = static_cast<std::size_t>(place);
    const double above = all[std::min(below + 1, all.size() - 1)];
    return std::lerp(all[below], above, place - static_cast<double>(below));
  }

 private:
  const double* words_;
  std::int64_t most_;
};

/// Writes the sketch of values in order to `words`. `place`, from 0 to 1, is where the first of equal distances is cut.
void write_sketch(std::span<const double> sorted, double place, double* words, std::int64_t most) {
  words[0] = static_cast<double>(sorted.size());
  const Sketch result(words, most);
  if (result.exact()) {
    std::copy(sorted.begin(), sorted.end(), words + 1);
    return;
  }
  for (std::int64_t i = 0; i < most; ++i) {
    const auto at = static_cast<std::size_t>((static_cast<double>(i) + place) * result.weight());
    words[1 + i] = sorted[std::min(at, sorted.size() - 1)];
  }
}

/// Makes of the sketch at `words` that of both. `scratch` is any memory.
void merge_sketch(double* words, const Sketch& other, double place, std::int64_t most, std::vector<double>& scratch) {
  const Sketch result(words, most);
  const double left_weight = result.weight(), right_weight = other.weight();
  scratch.assign(result.values().begin(), result.values().end());
  const std::span<const double> left(scratch), right = other.values();
  words[0] += other.count();
  if (result.exact()) {
    std::merge(left.begin(), left.end(), right.begin(), right.end(), words + 1);
    return;
  }
  double before = 0;  // the weight of all values so far
  std::int64_t next = 0;
  for (std::size_t i = 0, j = 0; next < most && i + j < left.size() + right.size();) {
    const bool from_left = j == right.size() || (i < left.size() && left[i] <= right[j]);
    const double value = from_left ? left[i++] : right[j++];
    before += from_left ? left_weight : right_weight;
    while (next < most && (static_cast<double>(next) + place) * result.weight() < before) words[1 + next++] = value;
  }
  // What rounding left.
  for (; next < most; ++next) words[1 + next] = words[next];
}

/// What is folded: the first block and the number of blocks, then the sketches, one behind the other.
struct Layout {
  std::int64_t columns, most;
  explicit Layout(std::int64_t columns_) : columns(columns_), most(sketch_values(columns_)) {}

  static constexpr std::int64_t kHead = 2;
  std::int64_t size() const noexcept { return kHead + columns * (most + 1); }
  std::int64_t of(std::int64_t column) const noexcept { return kHead + column * (most + 1); }
  /// Where a column's distances begin.
  static double place(const double* words, std::int64_t column) {
    const auto word = [](double value) { return static_cast<std::uint64_t>(value); };
    return static_cast<double>(mix(kSeed, word(words[0]), word(words[1]), static_cast<std::uint64_t>(column)) >> 11) *
           0x1p-53;
  }
};

/// Of so many neighbouring rows one is looked at, which chance decides: enough rows are left that this costs no more
/// than the sketch itself.
std::int64_t rows_for_each(const Table& table) {
  constexpr std::int64_t kEnough = 1 << 18, kMost = 256;
  const auto times = static_cast<std::uint64_t>(std::max<std::int64_t>(table.rows() / kEnough, 1));
  return std::min(static_cast<std::int64_t>(std::bit_floor(times)), kMost);
}

/// Rows of a block that are looked at, by their place in it.
std::vector<std::int64_t> chosen_rows(const Block& block, std::int64_t each) {
  std::vector<std::int64_t> rows;
  for (std::int64_t first = 0; first < block.rows; first += each) {
    const auto group = static_cast<std::uint64_t>((block.first + first) / each);
    const std::int64_t row =
        each == 1 ? first
                  : first + static_cast<std::int64_t>(Random(kSeed, group).below(static_cast<std::uint64_t>(each)));
    if (row < block.rows && block.weight(row) > 0) rows.push_back(row);
  }
  return rows;
}

template <class T>
void sketch_block(const Block& block, std::int64_t number, std::int64_t each, const Layout& layout, double* words) {
  words[0] = static_cast<double>(number);
  words[1] = 1;
  const auto rows = chosen_rows(block, each);
  std::vector<double> values;
  for (std::int64_t column = 0; column < layout.columns; ++column) {
    values.clear();
    for (const std::int64_t row : rows) {
      const double value = block.x<T>()[row * layout.columns + column];
      if (std::isfinite(value)) values.push_back(value + 0.0);  // -0 becomes 0, so that there is one order
    }
    std::sort(values.begin(), values.end());
    write_sketch(values, Layout::place(words, column), words + layout.of(column), layout.most);
  }
}

}  // namespace

std::int64_t sketch_values(std::int64_t columns) {
  constexpr std::uint64_t kOfAll = 1 << 19, kMost = 1024, kFewest = 128;
  const auto each = std::bit_floor(kOfAll / static_cast<std::uint64_t>(std::max<std::int64_t>(columns, 1)));
  return static_cast<std::int64_t>(std::clamp(each, kFewest, kMost));
}

Fold quantiles_fold(const Table& table) {
  const Layout layout(table.columns());
  const std::int64_t each = rows_for_each(table);
  return {.name = "quantiles",
          .size = layout.size(),
          .leaf =
              [&table, layout, each](const Block& block, std::int64_t number, double* words, int) {
                with_type_of(table, [&]<class T>(T) { sketch_block<T>(block, number, each, layout, words); });
              },
          .combine =
              [layout](double* left, const double* right) {
                left[1] += right[1];
                std::vector<double> scratch;
                for (std::int64_t column = 0; column < layout.columns; ++column) {
                  const std::int64_t of = layout.of(column);
                  merge_sketch(left + of, {right + of, layout.most}, Layout::place(left, column), layout.most, scratch);
                }
              }};
}

at::Tensor quantiles_of(const at::Tensor& folded, std::int64_t columns, const std::vector<double>& shares) {
  const Layout layout(columns);
  const at::Tensor result = at::empty({static_cast<std::int64_t>(shares.size()), columns}, at::kDouble);
  double* to = result.mutable_data_ptr<double>();
  for (const double share : shares) {
    for (std::int64_t column = 0; column < columns; ++column) {
      *to++ = Sketch(folded.const_data_ptr<double>() + layout.of(column), layout.most).quantile(share);
    }
  }
  return result;
}

at::Tensor quantiles(const Table& table, int threads, const std::vector<double>& shares) {
  return quantiles_of(fold(table, threads, quantiles_fold(table)), table.columns(), shares);
}

}  // namespace lockstep::ml
