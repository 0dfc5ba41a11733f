// lockstep/ml/union_find.h
//
// Sets of numbers that grow together. Any threads may unite and find at the same time; the
// sets do not depend on the order. The name of a set is its lowest number, once all is
// united. (Anderson and Woll, "Wait-free parallel algorithms for the union-find problem", 1991.)
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::ml {

class UnionFind {
 public:
  explicit UnionFind(std::size_t count) : parents_(count) {
    for (std::size_t i = 0; i < count; ++i) parents_[i].store(static_cast<std::int32_t>(i), std::memory_order_relaxed);
  }

  std::int32_t find(std::int32_t one) {
    for (;;) {
      std::int32_t parent = at(one).load(std::memory_order_relaxed);
      if (parent == one) return one;
      const std::int32_t above = at(parent).load(std::memory_order_relaxed);
      // Halves the path; another thread may have done better meanwhile.
      if (above != parent) at(one).compare_exchange_weak(parent, above, std::memory_order_relaxed);
      one = above;
    }
  }

  void unite(std::int32_t one, std::int32_t other) {
    for (;;) {
      one = find(one);
      other = find(other);
      if (one == other) return;
      if (one < other) std::swap(one, other);
      std::int32_t expected = one;
      if (at(one).compare_exchange_weak(expected, other, std::memory_order_relaxed)) return;
    }
  }

 private:
  std::atomic<std::int32_t>& at(std::int32_t number) { return parents_[static_cast<std::size_t>(number)]; }

  std::vector<std::atomic<std::int32_t>> parents_;
};

}  // namespace lockstep::ml
