// lockstep/ml/testing.h
//
// For tests: rows that are easy to make, spread over ranks in ways that are hard to get right.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/random.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml::testing {

/// Normal values around one of `centers` points, which lie around `mean`.
inline at::Tensor blobs(std::int64_t rows, std::int64_t columns, std::int64_t centers, std::uint64_t seed = 1,
                        double mean = 0) {
  Random random(seed, 0);
  at::Tensor places = at::empty({centers, columns}, at::kDouble), result = at::empty({rows, columns}, at::kDouble);
  for (std::int64_t i = 0; i < places.numel(); ++i) places.mutable_data_ptr<double>()[i] = mean + 3 * random.normal();
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto center = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(centers)));
    for (std::int64_t column = 0; column < columns; ++column) {
      result.mutable_data_ptr<double>()[row * columns + column] =
          places.const_data_ptr<double>()[center * columns + column] + random.normal();
    }
  }
  return result;
}

/// The rows of one of several ranks: unequal parts whose edges lie within blocks, and with more than 4 ranks one
/// without any.
inline at::Tensor part_of(const at::Tensor& whole, int rank, int ranks) {
  if (!whole.defined()) return whole;
  const auto edge = [&](int of) {
    if (of == 0) return std::int64_t{0};
    if (of == ranks) return whole.size(0);
    if (ranks > 4 && of == 3) of = 2;  // so that rank 2 has none
    return whole.size(0) * of / ranks + (of % 2 == 0 ? 13 : -7);
  };
  return whole.slice(0, edge(rank), edge(rank + 1));
}

/// `body` with the table of all rows, over `ranks` threads that are ranks.
inline void with_table(int ranks, const TableRows& rows, const std::function<void(const Table&)>& body) {
  comm::testing::on_ranks({ranks}, [&](comm::Communicator& group) {
    const auto own = [&](const at::Tensor& whole) { return part_of(whole, group.rank(), ranks); };
    const auto table = make_table(
        group, {own(rows.x), own(rows.targets), own(rows.weights), rows.names, rows.target_names, rows.value_names});
    body(*table);
  });
}

/// Ranks and threads of each of which a model must have the same bits.
inline const std::vector<std::pair<int, int>> kRanksAndThreads = {{1, 1}, {1, 2}, {1, 5}, {2, 1},
                                                                  {2, 2}, {3, 1}, {4, 2}, {8, 1}};

}  // namespace lockstep::ml::testing
