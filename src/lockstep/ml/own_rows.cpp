#include "lockstep/ml/own_rows.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace lockstep::ml {
namespace {

/// Of this rank's blocks [begin, end) `values_of` each, in rows of `width`.
template <class T, class ValuesOf>
at::Tensor copied(const Table& table, std::int64_t begin, std::int64_t end, std::int64_t width, at::ScalarType type,
                  const ValuesOf& values_of) {
  const std::int64_t first = table.own_place(begin);
  const at::Tensor result = at::empty({table.own_place(end) - first, width}, type);
  at::Tensor scratch;
  for (std::int64_t number = begin; number < end; ++number) {
    const Block block = table.block(number, scratch);
    std::copy_n(values_of(block), block.rows * width,
                result.mutable_data_ptr<T>() + (table.own_place(number) - first) * width);
  }
  return result;
}

at::Tensor x_of(const Table& table, std::int64_t begin, std::int64_t end) {
  return with_type_of(table, [&]<class T>(T) {
    return copied<T>(table, begin, end, table.columns(), table.type(), [](const Block& block) { return block.x<T>(); });
  });
}

}  // namespace

at::Tensor own_x(const Table& table) { return x_of(table, table.own_begin(), table.own_end()); }

at::Tensor own_targets(const Table& table) {
  return copied<double>(table, table.own_begin(), table.own_end(), table.targets(), at::kDouble,
                        [](const Block& block) { return block.targets; });
}

at::Tensor said_of_rows(const Table& table, const std::function<at::Tensor(const at::Tensor& x)>& say) {
  constexpr std::int64_t kBytes = 64 << 20;
  const BlockPlan& plan = table.plan();
  const std::int64_t each =
      std::max<std::int64_t>(kBytes / (plan.block_rows * std::max<std::int64_t>(table.columns(), 1) *
                                       static_cast<std::int64_t>(c10::elementSize(table.type()))),
                             1);
  std::int64_t most = 0;  // blocks of a rank
  for (std::size_t rank = 0; rank + 1 < plan.first_block.size(); ++rank) {
    most = std::max(most, plan.first_block[rank + 1] - plan.first_block[rank]);
  }
  std::vector<at::Tensor> said;
  for (std::int64_t done = 0; done < most; done += each) {
    const std::int64_t begin = std::min(table.own_begin() + done, table.own_end());
    said.push_back(say(x_of(table, begin, std::min(begin + each, table.own_end()))));
  }
  return said.size() == 1 ? said.front() : at::cat(said);
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
