// lockstep/ml/fold.h
//
// What each block of a table gives, combined over all blocks of all ranks in one fixed
// binary tree over block numbers: the result has the same bits on any number of ranks
// and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct Fold {
  const char* name;   // of the collective, for messages and traces
  std::int64_t size;  // doubles of what a block gives
  /// Adds what the block gives to `partial`, which is all 0 and begins on a boundary of 64 bytes. Called on any thread;
  /// `thread` is one of several from 0 on.
  std::function<void(const Block& block, std::int64_t number, double* partial, int thread)> leaf;
  /// Makes of `left` the result of both. Default: adds.
  std::function<void(double* left, const double* right)> combine = {};
};

/// float64 [size], on every rank. A collective. Threads are of this rank. Results above 1 MiB are combined as soon as
/// neighbours are done, so that memory is for about one of each thread and of each level of the tree.
at::Tensor fold(const Table& table, int threads, const Fold& what);

/// Several in one sweep, so that a block is brought once for all of them: the result of each.
std::vector<at::Tensor> fold_all(const Table& table, int threads, const char* name, const std::vector<Fold>& whats);

/// What each block gives by itself: `size` doubles of every block of every rank, by block number, on every rank. A
/// collective.
std::vector<double> of_all_blocks(
    const Table& table, int threads, std::int64_t size,
    const std::function<void(const Block& block, std::int64_t number, double* result)>& give);

}  // namespace lockstep::ml
