#include "lockstep/ml/fold.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "lockstep/comm/tree.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/ml/kernels/padded.h"
#include "lockstep/profile/span.h"

namespace lockstep::ml {
namespace {

using comm::TreeNode;

std::vector<TreeNode> nodes_of(const BlockPlan& plan, int rank) {
  const auto place = static_cast<std::size_t>(rank);
  return comm::nodes_within({0, static_cast<int>(plan.blocks())}, static_cast<int>(plan.first_block[place]),
                            static_cast<int>(plan.first_block[place + 1]));
}

/// The same cut into smaller ones, so that threads that take one after another end at nearly the same time.
std::vector<TreeNode> cut(const std::vector<TreeNode>& nodes, std::int64_t blocks, int threads) {
  constexpr std::int64_t kForEachThread = 8;
  const std::int64_t most = threads == 1 ? blocks : std::max<std::int64_t>(blocks / (threads * kForEachThread), 1);
  std::vector<TreeNode> result, waiting(nodes.rbegin(), nodes.rend());
  while (!waiting.empty()) {
    const TreeNode node = waiting.back();
    waiting.pop_back();
    if (node.count <= most) {
      result.push_back(node);
    } else {
      waiting.push_back(node.right());
      waiting.push_back(node.left());
    }
  }
  return result;
}

void combine(const Fold& what, double* left, const double* right) {
  if (what.combine) return what.combine(left, right);
  for (std::int64_t i = 0; i < what.size; ++i) left[i] += right[i];
}

class Folding {
 public:
  Folding(const Table& table, int threads, const Fold& what)
      : table_(table), threads_(threads), what_(what), stride_(padded(what.size)) {}

  at::Tensor run() {
    const auto own = nodes_of(table_.plan(), table_.group().rank());
    const auto pieces = cut(own, table_.own_end() - table_.own_begin(), threads_);
    const at::Tensor of_pieces = rows(pieces);
    compute(pieces, of_pieces);
    // The result of a node takes the place of its leftmost piece.
    std::size_t next = 0;
    at::Tensor of_nodes = rows(own);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double* partial = combined(own[i], pieces, of_pieces, next);
      std::copy_n(partial, stride_, row(of_nodes, i));
    }
    if (table_.group().size() == 1) return finished(own, of_nodes);
    std::vector<TreeNode> all;
    std::vector<std::int64_t> counts;
    for (int rank = 0; rank < table_.group().size(); ++rank) {
      const auto nodes = nodes_of(table_.plan(), rank);
      all.insert(all.end(), nodes.begin(), nodes.end());
      counts.push_back(static_cast<std::int64_t>(nodes.size()) * stride_);
    }
    const at::Tensor of_all = rows(all);
    table_.group().all_gather(of_all.view({-1}), of_nodes.view({-1}), counts, {.name = what_.name}).wait();
    return finished(all, of_all);
  }

 private:
  at::Tensor rows(const std::vector<TreeNode>& nodes) const {
    return at::empty({static_cast<std::int64_t>(nodes.size()), stride_}, at::kDouble);
  }
  double* row(const at::Tensor& rows, std::size_t number) const {
    return rows.mutable_data_ptr<double>() + static_cast<std::int64_t>(number) * stride_;
  }

  void compute(const std::vector<TreeNode>& pieces, const at::Tensor& results) {
    struct OfThread {
      at::Tensor scratch;              // of blocks that do not lie in memory
      std::vector<at::Tensor> levels;  // right results, by depth below the piece
    };
    std::vector<OfThread> of_threads(static_cast<std::size_t>(threads_));
    const Sweep sweep(table_.observer().get(), what_.name, table_.own_rows());
    on_threads(threads_, static_cast<std::int64_t>(pieces.size()), 1,
               [&](std::int64_t first, std::int64_t last, int thread) {
                 const profile::Span span(what_.name);
                 OfThread& own = of_threads[static_cast<std::size_t>(thread)];
                 const auto reduce = [&](const auto& self, TreeNode node, double* result, std::size_t depth) -> void {
                   if (node.leaf()) {
                     std::fill_n(result, stride_, 0.0);
                     const Block block = table_.block(node.first, own.scratch);
                     what_.leaf(block, node.first, result, thread);
                     sweep.add(block.rows);
                     return;
                   }
                   if (own.levels.size() <= depth) own.levels.push_back(at::empty({stride_}, at::kDouble));
                   double* right = own.levels[depth].mutable_data_ptr<double>();
                   self(self, node.left(), result, depth + 1);
                   self(self, node.right(), right, depth + 1);
                   combine(result, right);
                 };
                 for (std::int64_t piece = first; piece < last; ++piece) {
                   const auto place = static_cast<std::size_t>(piece);
                   reduce(reduce, pieces[place], row(results, place), 0);
                 }
               });
  }

  void combine(double* left, const double* right) const { ml::combine(what_, left, right); }

  /// Of `node`, from results of nodes below it, which come in order from `next` on.
  double* combined(TreeNode node, const std::vector<TreeNode>& known, const at::Tensor& results,
                   std::size_t& next) const {
    if (known[next] == node) return row(results, next++);
    double* left = combined(node.left(), known, results, next);
    combine(left, combined(node.right(), known, results, next));
    return left;
  }

  at::Tensor finished(const std::vector<TreeNode>& nodes, const at::Tensor& results) const {
    if (nodes.empty()) return at::zeros({what_.size}, at::kDouble);
    std::size_t next = 0;
    const double* result = combined({0, static_cast<int>(table_.plan().blocks())}, nodes, results, next);
    at::Tensor copy = at::empty({what_.size}, at::kDouble);
    std::copy_n(result, what_.size, copy.mutable_data_ptr<double>());
    return copy;
  }

  const Table& table_;
  int threads_;
  const Fold& what_;
  std::int64_t stride_;
};

/// Of results so large that memory counts: each piece is one block, two neighbours are combined as soon as both are
/// done, and results go up the tree from rank to rank. So a rank holds about one result for each thread and one for
/// each level of the tree, however many ranks there are.
class LargeFolding {
 public:
  LargeFolding(const Table& table, int threads, const Fold& what)
      : table_(table), group_(table.group()), threads_(threads), what_(what), stride_(padded(what.size)) {}

  at::Tensor run() {
    if (table_.plan().blocks() == 0) return at::zeros({what_.size}, at::kDouble);
    compute();
    at::Tensor result = from_ranks({0, static_cast<int>(table_.plan().blocks())});
    spare_.clear();
    if (group_.size() > 1) {
      if (!result.defined()) result = at::empty({stride_}, at::kDouble);
      group_.broadcast_(result, rank_of(0), {.name = what_.name}).wait();
    }
    return result.slice(0, 0, what_.size);
  }

 private:
  void compute() {
    std::vector<at::Tensor> scratch(static_cast<std::size_t>(threads_));  // of blocks that do not lie in memory
    const Sweep sweep(table_.observer().get(), what_.name, table_.own_rows());
    on_threads(threads_, table_.own_end() - table_.own_begin(), 1, [&](std::int64_t place, std::int64_t, int thread) {
      const profile::Span span(what_.name);
      const std::int64_t number = table_.own_begin() + place;
      const at::Tensor result = taken_spare();
      auto* partial = result.mutable_data_ptr<double>();
      std::fill_n(partial, stride_, 0.0);
      const Block block = table_.block(number, scratch[static_cast<std::size_t>(thread)]);
      what_.leaf(block, number, partial, thread);
      take_up(static_cast<int>(number), result);
      sweep.add(block.rows);
    });
  }

  /// Up the tree with the result of a block, as far as neighbours are done and nodes lie within this rank's blocks.
  void take_up(int block, at::Tensor result) {
    std::vector<TreeNode> above;
    TreeNode node{0, static_cast<int>(table_.plan().blocks())};
    while (!node.leaf()) {
      above.push_back(node);
      node = block < node.left().end() ? node.left() : node.right();
    }
    for (; !above.empty() && is_own(above.back()); above.pop_back()) {
      const TreeNode parent = above.back();
      const bool is_left = node == parent.left();
      at::Tensor other = take_or_leave(is_left ? parent.right() : parent.left(), node, result);
      if (!other.defined()) return;
      if (!is_left) std::swap(result, other);
      combine_into(result, other);
      node = parent;
    }
    const std::lock_guard lock(mutex_);
    done_.emplace(key(node), result);
  }

  /// The result of the neighbour; if that is not done, this one waits for it.
  at::Tensor take_or_leave(TreeNode neighbour, TreeNode node, const at::Tensor& result) {
    const std::lock_guard lock(mutex_);
    const auto found = done_.find(key(neighbour));
    if (found != done_.end()) return std::move(done_.extract(found).mapped());
    done_.emplace(key(node), result);
    return {};
  }

  /// On the rank of the node's first block its result. All ranks walk the same way, so that each message finds its
  /// receiver.
  at::Tensor from_ranks(TreeNode node) {
    const int first = rank_of(node.first), last = rank_of(node.end() - 1), own = group_.rank();
    if (own < first || own > last) return {};
    if (first == last) return std::move(done_.extract(key(node)).mapped());
    at::Tensor left = from_ranks(node.left()), right = from_ranks(node.right());
    const int sender = rank_of(node.right().first);
    if (sender != first && own == sender) {
      group_.send(right, first, {.name = what_.name}).wait();
      give_spare(std::move(right));
    }
    if (own != first) return {};
    if (sender != first) {
      right = taken_spare();
      group_.recv_(right, sender, {.name = what_.name}).wait();
    }
    combine_into(left, right);
    return left;
  }

  void combine_into(const at::Tensor& left, at::Tensor& right) {
    ml::combine(what_, left.mutable_data_ptr<double>(), right.const_data_ptr<double>());
    give_spare(std::move(right));
  }

  // The system would clear the pages of each new result.
  at::Tensor taken_spare() {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return at::empty({stride_}, at::kDouble);
    at::Tensor last = std::move(spare_.back());
    spare_.pop_back();
    return last;
  }
  void give_spare(at::Tensor result) {
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(result));
  }

  bool is_own(TreeNode node) const noexcept {
    return node.first >= table_.own_begin() && node.end() <= table_.own_end();
  }
  int rank_of(int block) const {
    const auto& first = table_.plan().first_block;
    return static_cast<int>(std::upper_bound(first.begin(), first.end(), block) - first.begin()) - 1;
  }
  static std::pair<int, int> key(TreeNode node) { return {node.first, node.count}; }

  const Table& table_;
  comm::Communicator& group_;
  int threads_;
  const Fold& what_;
  std::int64_t stride_;
  std::mutex mutex_;
  std::map<std::pair<int, int>, at::Tensor> done_;  // by node, those whose neighbour is not done
  std::vector<at::Tensor> spare_;
};

}  // namespace

at::Tensor fold(const Table& table, int threads, const Fold& what) {
  constexpr std::int64_t kMostSmall = (std::int64_t{1} << 20) / static_cast<std::int64_t>(sizeof(double));
  if (what.size > kMostSmall) return LargeFolding(table, threads, what).run();
  return Folding(table, threads, what).run();
}

std::vector<at::Tensor> fold_all(const Table& table, int threads, const char* name, const std::vector<Fold>& whats) {
  std::int64_t size = 0;
  for (const Fold& what : whats) size += padded(what.size);
  const at::Tensor all = fold(table, threads,
                              {.name = name,
                               .size = size,
                               .leaf =
                                   [&](const Block& block, std::int64_t number, double* partial, int thread) {
                                     for (const Fold& what : whats) {
                                       what.leaf(block, number, partial, thread);
                                       partial += padded(what.size);
                                     }
                                   },
                               .combine =
                                   [&](double* left, const double* right) {
                                     for (const Fold& what : whats) {
                                       combine(what, left, right);
                                       left += padded(what.size);
                                       right += padded(what.size);
                                     }
                                   }});
  std::vector<at::Tensor> results;
  std::int64_t place = 0;
  for (const Fold& what : whats) {
    results.push_back(all.slice(0, place, place + what.size));
    place += padded(what.size);
  }
  return results;
}

std::vector<double> of_all_blocks(
    const Table& table, int threads, std::int64_t size,
    const std::function<void(const Block& block, std::int64_t number, double* result)>& give) {
  const auto& first = table.plan().first_block;
  const at::Tensor own = at::zeros({(table.own_end() - table.own_begin()) * size}, at::kDouble);
  std::vector<at::Tensor> scratch(static_cast<std::size_t>(threads));
  const Sweep sweep(table.observer().get(), "rows", table.own_rows());
  on_threads(threads, table.own_end() - table.own_begin(), 1, [&](std::int64_t place, std::int64_t, int thread) {
    const std::int64_t number = table.own_begin() + place;
    const Block block = table.block(number, scratch[static_cast<std::size_t>(thread)]);
    give(block, number, own.mutable_data_ptr<double>() + place * size);
    sweep.add(block.rows);
  });
  std::vector<std::int64_t> counts;
  for (std::size_t rank = 0; rank + 1 < first.size(); ++rank) counts.push_back((first[rank + 1] - first[rank]) * size);
  const at::Tensor all = at::empty({table.plan().blocks() * size}, at::kDouble);
  table.group().all_gather(all, own, counts, {.name = "results of blocks"}).wait();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

}  // namespace lockstep::ml
