#include "lockstep/parallel/sparse_rows.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace lockstep::parallel {
namespace {

/// Equal rows are added up in the order in which they come.
SparseRows added_up(const at::Tensor& given_rows, const at::Tensor& given_values) {
  const at::Tensor rows = given_rows.contiguous(), values = given_values.contiguous();
  const std::int64_t count = rows.numel(), width = values.size(1);
  const auto* row = rows.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [row](std::int64_t one, std::int64_t other) { return row[one] < row[other]; });
  std::vector<std::int64_t> found;
  for (const std::int64_t place : order) {
    if (found.empty() || found.back() != row[place]) found.push_back(row[place]);
  }
  const auto different = static_cast<std::int64_t>(found.size());
  SparseRows result{at::empty({different}, at::kLong), at::zeros({different, width}, values.options())};
  std::copy(found.begin(), found.end(), result.rows.mutable_data_ptr<std::int64_t>());
  AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "sparse rows", [&] {
    const auto* from = values.const_data_ptr<scalar_t>();
    auto* to = result.values.mutable_data_ptr<scalar_t>() - width;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || row[order[i]] != row[order[i - 1]]) to += width;
      for (std::int64_t column = 0; column < width; ++column) to[column] += from[order[i] * width + column];
    }
  });
  return result;
}

}  // namespace

SparseRows rows_of(const at::Tensor& gradient, const at::Tensor& like) {
  if (!gradient.defined()) return {at::empty({0}, at::kLong), at::empty({0, like.size(1)}, like.options())};
  return added_up(gradient._indices()[0], gradient._values());
}

SparseRows sum_over_ranks(const SparseRows& mine, comm::Communicator& group) {
  if (group.size() == 1) return mine;
  const std::int64_t width = mine.values.size(1);
  at::Tensor count = at::empty({1}, at::kLong).fill_(mine.rows.numel()), counts = at::empty({group.size()}, at::kLong);
  group.all_gather(counts, count, {}, {.name = "sparse gradients"}).wait();
  const auto* first = counts.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> of_rows(first, first + group.size()), of_values = of_rows;
  for (auto& elements : of_values) elements *= width;
  const std::int64_t total = std::accumulate(of_rows.begin(), of_rows.end(), std::int64_t{0});
  if (total == 0) return mine;
  const at::Tensor rows = at::empty({total}, at::kLong), values = at::empty({total, width}, mine.values.options());
  auto work = group.all_gather(rows, mine.rows, of_rows, {.name = "sparse gradients' rows"});
  work.add(group.all_gather(values, mine.values, of_values, {.name = "sparse gradients"}));
  work.wait();
  return added_up(rows, values);
}

}  // namespace lockstep::parallel
