#include "lockstep/ml/own_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <ATen/ops/empty.h>

namespace lockstep::ml {
namespace {

/// `values_of` a block, in rows of `width`.
template <class T, class ValuesOf>
at::Tensor copied(const Table& table, std::int64_t width, at::ScalarType type, const ValuesOf& values_of) {
  const at::Tensor result = at::empty({table.own_rows(), width}, type);
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    std::copy_n(values_of(block), block.rows * width, result.mutable_data_ptr<T>() + table.own_place(number) * width);
  }
  return result;
}

}  // namespace

at::Tensor own_x(const Table& table) {
  return with_type_of(table, [&]<class T>(T) {
    return copied<T>(table, table.columns(), table.type(), [](const Block& block) { return block.x<T>(); });
  });
}

at::Tensor own_targets(const Table& table) {
  return copied<double>(table, table.targets(), at::kDouble, [](const Block& block) { return block.targets; });
}

at::Tensor gather_rows(const Table& table, const at::Tensor& own) {
  std::vector<std::int64_t> sizes(own.sizes().begin(), own.sizes().end());
  const std::int64_t width = std::accumulate(sizes.begin() + 1, sizes.end(), std::int64_t{1}, std::multiplies<>());
  const BlockPlan& plan = table.plan();
  std::vector<std::int64_t> counts;
  for (std::size_t rank = 0; rank + 1 < plan.first_block.size(); ++rank) {
    counts.push_back((plan.begin(plan.first_block[rank + 1]) - plan.begin(plan.first_block[rank])) * width);
  }
  sizes.front() = table.rows();
  at::Tensor all;
  if (table.group().rank() == 0) all = at::empty(sizes, own.options());
  table.group()
      .gather(all.defined() ? all.view({-1}) : all, own.reshape({-1}), 0, counts, {.name = "values of all rows"})
      .wait();
  return all;
}

}  // namespace lockstep::ml
