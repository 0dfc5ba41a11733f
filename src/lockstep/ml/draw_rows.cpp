#include "lockstep/ml/draw_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {
namespace {

/// The first place whose sum up to it is above `share`. Rounding may leave a little at the end: then it is the last
/// that has a weight.
std::size_t place_of(std::span<const double> sums_up_to, double share) {
  auto found = std::upper_bound(sums_up_to.begin(), sums_up_to.end(), share);
  if (found == sums_up_to.end()) found = std::lower_bound(sums_up_to.begin(), sums_up_to.end(), sums_up_to.back());
  return static_cast<std::size_t>(found - sums_up_to.begin());
}

}  // namespace

std::vector<std::int64_t> draw_different(Random& random, std::int64_t end, std::int64_t count) {
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> numbers;
  for (std::int64_t last = end - count; last < end; ++last) {
    const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last) + 1));
    numbers.push_back(seen.insert(drawn).second ? drawn : last);
    seen.insert(numbers.back());
  }
  return numbers;
}

std::vector<std::int64_t> draw_different_by_weight(const Table& table, std::uint64_t seed, std::int64_t count) {
  // Each row waits for a time that is exponential of its weight; the first come (Efraimidis and Spirakis, 2006).
  struct Waiting {
    double time;
    std::int64_t row;
    bool operator<(const Waiting& other) const { return std::tie(time, row) < std::tie(other.time, other.row); }
  };
  std::vector<Waiting> first;
  const auto keep_first = [&] {
    const auto most = std::min(first.size(), static_cast<std::size_t>(count));
    std::partial_sort(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(most), first.end());
    first.resize(most);
  };
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      if (block.weight(row) == 0) continue;
      Random random(seed, static_cast<std::uint64_t>(block.first + row));
      first.push_back({-std::log1p(-random.uniform()) / block.weight(row), block.first + row});
    }
    keep_first();
  }
  first = comm::gather_values(table.group(), first);
  keep_first();
  if (static_cast<std::int64_t>(first.size()) < count)
    fail(Fault::Data,
         fmt::format("{} rows weigh more than 0, and {} are to be drawn; use fewer clusters", first.size(), count));
  std::vector<std::int64_t> numbers;
  for (const Waiting& one : first) numbers.push_back(one.row);
  return numbers;
}

std::int64_t count_weighing(const Table& table) {
  if (!table.weighted()) return table.rows();
  at::Tensor count = at::zeros({1}, at::kLong);
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    count += std::count_if(block.weights, block.weights + block.rows, [](double weight) { return weight > 0; });
  }
  table.group().all_reduce_(count, comm::ReduceOp::Sum, {.name = "rows with weight"}).wait();
  return count.item<std::int64_t>();
}

RowDraw::RowDraw(const Table& table, int threads) : table_(table) {
  if (!table.weighted()) return;
  to_row_.resize(static_cast<std::size_t>(table.own_rows()));
  to_block_ = of_all_blocks(table, threads, 1, [&](const Block& block, std::int64_t number, double* sum) {
    double* to_row = to_row_.data() + table.own_place(number);
    for (std::int64_t row = 0; row < block.rows; ++row) to_row[row] = *sum += block.weight(row);
  });
  std::partial_sum(to_block_.begin(), to_block_.end(), to_block_.begin());
  check_weight(to_block_.back());
}

std::vector<std::int64_t> RowDraw::drawn_evenly(Random random, std::int64_t count) const {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(table_.rows())));
    if (own(number / table_.plan().block_rows)) numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::int64_t> RowDraw::drawn_by_weight(Random random, std::int64_t count) const {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    const double share = random.uniform() * to_block_.back();
    const std::size_t place = place_of(to_block_, share);
    const auto block = static_cast<std::int64_t>(place);
    if (!own(block)) continue;
    const std::span rows(to_row_.data() + table_.own_place(block),
                         static_cast<std::size_t>(table_.plan().rows_of(block)));
    const double rest = share - (place == 0 ? 0 : to_block_[place - 1]);
    numbers.push_back(table_.plan().begin(block) + static_cast<std::int64_t>(place_of(rows, rest)));
  }
  return numbers;
}

std::unique_ptr<Table> RowDraw::operator()(Random random, std::int64_t count) const {
  auto numbers = table_.weighted() ? drawn_by_weight(random, count) : drawn_evenly(random, count);
  std::sort(numbers.begin(), numbers.end());
  const auto own_count = static_cast<std::int64_t>(numbers.size());
  TableRows rows{.x = at::empty({own_count, table_.columns()}, table_.type())};
  at::Tensor scratch;
  for (std::int64_t i = 0; i < own_count; ++i) {
    const Block row = table_.some(numbers[static_cast<std::size_t>(i)], 1, scratch);
    with_type_of(table_, [&]<class T>(T) {
      std::copy_n(row.x<T>(), table_.columns(), rows.x.mutable_data_ptr<T>() + i * table_.columns());
    });
  }
  return make_table(table_.group(), std::move(rows));
}

}  // namespace lockstep::ml
