#include "lockstep/ml/folds.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/random.h"
#include "lockstep/data/permutation.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/own_rows.h"

namespace lockstep::ml {
namespace {

void check_count(const Table& table, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int16_t>::max();
  if (count >= 2 && count <= std::min(table.rows(), kMost)) return;
  fail(Fault::Usage, fmt::format("{} folds of {} rows: there are from 2 to as many as rows, and at most {}", count,
                                 table.rows(), kMost));
}

/// The fold of the item at `place` of `items` neighbours, the first of which have one more where they do not come out
/// even.
std::int16_t even_fold(std::int64_t place, std::int64_t items, std::int64_t count) {
  const std::int64_t size = items / count, larger = items % count;
  const std::int64_t in_larger = larger * (size + 1);
  return static_cast<std::int16_t>(place < in_larger ? place / (size + 1) : larger + (place - in_larger) / size);
}

/// How many rows of each class each block has, and the number of the first.
class ClassCounts {
 public:
  ClassCounts(const Table& table, const std::vector<std::int32_t>& numbers, std::int64_t classes, int threads)
      : classes_(classes),
        words_(of_all_blocks(table, threads, 2 * classes, [&](const Block& block, std::int64_t number, double* words) {
          const std::int32_t* own = numbers.data() + table.own_place(number);
          for (std::int64_t row = 0; row < block.rows; ++row) {
            if (words[own[row]]++ == 0) words[classes + own[row]] = static_cast<double>(block.first + row);
          }
        })) {}

  std::int64_t blocks() const { return static_cast<std::int64_t>(words_.size()) / (2 * classes_); }
  std::int64_t rows(std::int64_t block, std::int64_t number) const {
    return static_cast<std::int64_t>(words_[static_cast<std::size_t>(2 * classes_ * block + number)]);
  }
  std::int64_t rows(std::int64_t number) const {
    std::int64_t sum = 0;
    for (std::int64_t block = 0; block < blocks(); ++block) sum += rows(block, number);
    return sum;
  }
  std::int64_t first(std::int64_t number) const {
    std::int64_t block = 0;
    while (rows(block, number) == 0) ++block;
    return static_cast<std::int64_t>(words_[static_cast<std::size_t>(2 * classes_ * block + classes_ + number)]);
  }

 private:
  std::int64_t classes_;
  std::vector<double> words_;
};

/// By class: where its rows end that go to each fold, one fold after another. Classes lie one behind the other, in the
/// order in which they appear; every count-th row from there goes to the same fold.
std::vector<std::vector<std::int64_t>> ends_of(const ClassCounts& counts, std::int64_t classes, std::int64_t folds) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::int64_t one, std::int64_t other) { return counts.first(one) < counts.first(other); });
  std::vector<std::vector<std::int64_t>> ends(static_cast<std::size_t>(classes));
  std::int64_t begin = 0;
  for (const std::int64_t number : order) {
    const std::int64_t end = begin + counts.rows(number);
    std::int64_t before = 0;
    for (std::int64_t fold = 0; fold < folds; ++fold) {
      // Numbers below x that leave `fold` when divided by the number of folds.
      const auto below = [&](std::int64_t x) { return x / folds + (x % folds > fold ? 1 : 0); };
      before += below(end) - below(begin);
      ends[static_cast<std::size_t>(number)].push_back(before);
    }
    begin = end;
  }
  return ends;
}

class WeighedTable final : public Table {
 public:
  WeighedTable(const Table& table, std::vector<double> weights)
      : Table(table), all_(table), weights_(std::move(weights)) {
    weighted_ = true;
  }

  Block block(std::int64_t number, at::Tensor& scratch) const override { return weighed(all_.block(number, scratch)); }
  Block some(std::int64_t first, std::int64_t count, at::Tensor& scratch) const override {
    return weighed(all_.some(first, count, scratch));
  }

 private:
  Block weighed(Block rows) const {
    rows.weights = weights_.data() + rows.first - plan_.begin(own_begin());
    return rows;
  }

  const Table& all_;
  std::vector<double> weights_;
};

/// With the weights of rows that `keeps` says.
template <class Keeps>
std::unique_ptr<Table> weighed(const Table& table, const Folds& folds, const Keeps& keeps) {
  std::vector<double> weights(folds.of_rows.size());
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.weighted() ? table.block(number, scratch) : Block{};
    const std::int64_t place = table.own_place(number);
    for (std::int64_t row = 0; row < table.plan().rows_of(number); ++row) {
      const auto at = static_cast<std::size_t>(place + row);
      weights[at] = keeps(folds.of_rows[at]) ? block.weight(row) : 0;
    }
  }
  return std::make_unique<WeighedTable>(table, std::move(weights));
}

}  // namespace

Folds deal_rows(const Table& table, std::int64_t count, std::optional<std::uint64_t> seed) {
  check_count(table, count);
  Folds folds{.count = count};
  const std::int64_t first = table.plan().begin(table.own_begin());
  const data::Permutation places(static_cast<std::uint64_t>(table.rows()), seed.value_or(0));
  for (std::int64_t row = first; row < first + table.own_rows(); ++row) {
    const auto place = seed ? static_cast<std::int64_t>(places(static_cast<std::uint64_t>(row))) : row;
    folds.of_rows.push_back(even_fold(place, table.rows(), count));
  }
  return folds;
}

Folds deal_classes(const Table& table, const Classes& classes, std::int64_t count, int threads,
                   std::optional<std::uint64_t> seed) {
  check_count(table, count);
  const auto numbers = classes.numbers(table, threads);
  const ClassCounts counts(table, numbers, classes.count(), threads);
  std::int64_t fewest = 0, most = 0;
  for (std::int64_t number = 0; number < classes.count(); ++number) {
    if (counts.rows(number) < counts.rows(fewest)) fewest = number;
    most = std::max(most, counts.rows(number));
  }
  if (most < count) fail(Fault::Usage, fmt::format("{} folds, and no class has more than {} rows", count, most));
  if (counts.rows(fewest) < count && table.group().rank() == 0) {
    log().warn("class {} has only {} rows, fewer than the {} folds", classes.name_of(fewest), counts.rows(fewest),
               count);
  }
  const auto ends = ends_of(counts, classes.count(), count);
  std::vector<std::int64_t> next(static_cast<std::size_t>(classes.count()));  // how many of a class came before
  std::vector<data::Permutation> places;
  for (std::int64_t number = 0; number < classes.count(); ++number) {
    for (std::int64_t block = 0; block < table.own_begin(); ++block) {
      next[static_cast<std::size_t>(number)] += counts.rows(block, number);
    }
    places.emplace_back(static_cast<std::uint64_t>(counts.rows(number)),
                        mix(seed.value_or(0), static_cast<std::uint64_t>(number)));
  }
  Folds folds{.count = count};
  for (const std::int32_t number : numbers) {
    const auto of = static_cast<std::size_t>(number);
    std::int64_t place = next[of]++;
    if (seed) place = static_cast<std::int64_t>(places[of](static_cast<std::uint64_t>(place)));
    const auto end = std::upper_bound(ends[of].begin(), ends[of].end(), place);
    folds.of_rows.push_back(static_cast<std::int16_t>(end - ends[of].begin()));
  }
  return folds;
}

std::unique_ptr<Table> without_fold(const Table& table, const Folds& folds, std::int64_t fold) {
  return weighed(table, folds, [fold](std::int16_t of_row) { return of_row != fold; });
}

std::unique_ptr<Table> fold_alone(const Table& table, const Folds& folds, std::int64_t fold) {
  return weighed(table, folds, [fold](std::int16_t of_row) { return of_row == fold; });
}

std::unique_ptr<Table> rows_that_weigh(const Table& table) {
  std::vector<std::int64_t> kept;
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      if (block.weight(row) > 0) kept.push_back(table.own_place(number) + row);
    }
  }
  const at::Tensor places = at::tensor(kept, at::kLong);
  return make_table(table.group(), {.x = own_x(table).index_select(0, places),
                                    .targets = own_targets(table).index_select(0, places),
                                    .names = table.names(),
                                    .target_names = table.target_names(),
                                    .value_names = table.value_names(),
                                    .preparation = table.preparation(),
                                    .observer = table.observer()});
}

void check_two_rows_each(const Table& table, const Folds& folds) {
  if (table.rows() >= 2 * folds.count) return;
  fail(Fault::Usage, fmt::format("R² needs two rows in each fold: {} rows are dealt to at most {} folds", table.rows(),
                                 table.rows() / 2));
}

}  // namespace lockstep::ml
