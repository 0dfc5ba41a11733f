#include "lockstep/ml/nearest_rows.h"

#include <algorithm>
#include <utility>

#include "lockstep/core/on_threads.h"
#include "lockstep/ml/kernels/near.h"
#include "lockstep/ml/squared_distance.h"

namespace lockstep::ml {
namespace {

// Rows of a product stay in the second cache for all queries of a part; queries of a part, too.
constexpr std::int64_t kRows = 128, kQueries = 256;
// Fewer are not worth a part of their own.
constexpr std::int64_t kFewQueries = 32;
/// Rows of a block, of rows in memory.
constexpr std::int64_t kOfBlock = 8192;

/// A few rows' mean: as good as that of all for keeping digits.
template <class T>
std::vector<T> shift_of(const RowBlocks& rows, std::int64_t columns) {
  constexpr std::int64_t kFew = 256;
  std::vector<double> mean(static_cast<std::size_t>(columns));
  at::Tensor scratch;
  if (rows.count > 0) {
    const Block block = rows.block(0, scratch);
    const std::int64_t few = std::min(block.rows, kFew);
    for (std::int64_t i = 0; i < few * columns; ++i) {
      mean[static_cast<std::size_t>(i % columns)] += static_cast<double>(block.x<T>()[i]) / static_cast<double>(few);
    }
  }
  return {mean.begin(), mean.end()};
}

/// The nearest rows so far of some queries.
template <class T>
class Search {
 public:
  Search(const T* queries, std::int64_t count, std::int64_t columns, std::int64_t k, const std::vector<T>& shift)
      : queries_(queries),
        columns_(columns),
        k_(k),
        shift_(shift),
        panels_(queries, count, columns, shift.data()),
        best_(static_cast<std::size_t>(count * k)) {}

  void look_at(const Block& block) {
    for (std::int64_t first = 0; first < block.rows; first += kRows) {
      const T* x = block.x<T>() + first * columns_;
      rows_.take(x, std::min(kRows, block.rows - first), columns_, shift_.data());
      near_.clear();
      find_near(rows_, panels_, near_);
      for (const auto [row, query] : near_) {
        const double squared = squared_distance(x + row * columns_, queries_ + query * columns_, columns_);
        offer(query, {squared, block.first + first + row});
      }
    }
  }

  /// [queries, k]; within a query in the order of a heap.
  const std::vector<Neighbor>& best() const noexcept { return best_; }

 private:
  void offer(std::int64_t query, const Neighbor& neighbor) {
    Neighbor* heap = best_.data() + query * k_;  // the farthest first
    if (!(neighbor < *heap)) return;
    std::pop_heap(heap, heap + k_);
    heap[k_ - 1] = neighbor;
    std::push_heap(heap, heap + k_);
    panels_.set_reach(query, heap->squared);
  }

  const T* queries_;
  std::int64_t columns_, k_;
  const std::vector<T>& shift_;
  QueryPanels<T> panels_;
  MovedRows<T> rows_;
  std::vector<NearPair> near_;
  std::vector<Neighbor> best_;
};

template <class T>
std::vector<Neighbor> search(const RowBlocks& rows, const at::Tensor& queries, std::int64_t k, int threads) {
  const std::int64_t count = queries.size(0), columns = queries.size(1);
  const T* values = queries.const_data_ptr<T>();
  const auto shift = shift_of<T>(rows, columns);
  // Of few queries threads take parts of the rows.
  const std::int64_t at_once = std::clamp((count + threads - 1) / threads, kFewQueries, kQueries);
  const std::int64_t parts = (count + at_once - 1) / at_once;
  const std::int64_t segments =
      std::clamp<std::int64_t>(threads / std::max<std::int64_t>(parts, 1), 1, std::max<std::int64_t>(rows.count, 1));
  std::vector<std::vector<Neighbor>> found(static_cast<std::size_t>(parts * segments));
  on_threads(threads, parts * segments, 1, [&](std::int64_t item, std::int64_t, int) {
    const std::int64_t part = item / segments, segment = item % segments, first = part * at_once;
    Search<T> own(values + first * columns, std::min(at_once, count - first), columns, k, shift);
    at::Tensor scratch;
    for (std::int64_t block = rows.count * segment / segments; block < rows.count * (segment + 1) / segments; ++block) {
      own.look_at(rows.block(block, scratch));
    }
    found[static_cast<std::size_t>(item)] = own.best();
  });
  std::vector<Neighbor> result(static_cast<std::size_t>(count * k)), all;
  for (std::int64_t query = 0; query < count; ++query) {
    all.clear();
    for (std::int64_t segment = 0; segment < segments; ++segment) {
      const auto& some = found[static_cast<std::size_t>(query / at_once * segments + segment)];
      const auto begin = some.begin() + query % at_once * k;
      all.insert(all.end(), begin, begin + k);
    }
    std::partial_sort_copy(all.begin(), all.end(), result.begin() + query * k, result.begin() + (query + 1) * k);
  }
  return result;
}

}  // namespace

RowBlocks RowBlocks::of(const Table& table) {
  return {table.own_end() - table.own_begin(), [&table](std::int64_t number, at::Tensor& scratch) {
            return table.block(table.own_begin() + number, scratch);
          }};
}

RowBlocks RowBlocks::of(const at::Tensor& x) {
  return {(x.size(0) + kOfBlock - 1) / kOfBlock, [x](std::int64_t number, at::Tensor&) {
            const std::int64_t first = number * kOfBlock;
            const auto* values = static_cast<const std::byte*>(x.const_data_ptr());
            return Block{.first = first,
                         .rows = std::min(kOfBlock, x.size(0) - first),
                         .values = values + first * x.size(1) * static_cast<std::int64_t>(x.element_size())};
          }};
}

std::vector<Neighbor> nearest_rows(const RowBlocks& rows, const at::Tensor& queries, std::int64_t k, int threads) {
  return queries.scalar_type() == at::kFloat ? search<float>(rows, queries, k, threads)
                                             : search<double>(rows, queries, k, threads);
}

}  // namespace lockstep::ml
