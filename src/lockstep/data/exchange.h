// lockstep/data/exchange.h
//
// With cache = "cluster" each rank holds a run of the samples, and those of a batch
// travel from who holds them to who wants them. The order of samples is known to all,
// so nobody asks: each rank sends what it holds of the batch. All ranks call round()
// for the same batches in the same order, from one thread each.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/batch.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/holders.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/order.h"

namespace lockstep::data {

class Exchange {
 public:
  /// All ranks of `group` together; `dataset` must be one that says who holds what. What this rank holds is read from
  /// the disk meanwhile, in the order in which it is wanted from `start` on: to the end of that epoch and in the next
  /// one.
  Exchange(const Dataset& dataset, const Order& order, comm::Communicator& group, const Share& share, Position start);
  ~Exchange();

  /// This rank's rows of one batch, as they came.
  struct Arrived {
    at::Tensor memory;
    std::vector<Bytes> rows;
  };
  /// Nothing if a rank is stopping: then no rank has another round.
  std::optional<Arrived> round(const Batch& about, bool stopping);

 private:
  void read_ahead(Position start) const;
  void put_row(std::int64_t id);
  at::Tensor memory_for(std::size_t bytes) const;
  std::byte* grow_by(std::size_t bytes);

  const Dataset& dataset_;
  const Order& order_;
  comm::Communicator& group_;
  const Holders& holders_;
  std::vector<Share> shares_;  // by rank
  Sample sample_;
  at::Tensor parcels_;  // of the round, in memory that ranks of the host read in place
  std::size_t used_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread reader_;
};

/// The sample that a row of Arrived holds; an Error if its holder could not read it.
void take_arrived(Bytes row, Sample& sample);

}  // namespace lockstep::data
