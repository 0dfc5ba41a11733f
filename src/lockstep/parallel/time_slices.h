// lockstep/parallel/time_slices.h
//
// Sequence parallelism (Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022): where ranks that split layers would all have the same activations [batch, time, …],
// each has an equal slice of time instead, in the order of ranks. What works on positions one by
// one, such as a norm, a residual sum or dropout, is done once and kept once; the sum over ranks
// that ended a layer becomes a sum to slices, and the next layer gathers them: the same traffic.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::parallel {

/// Positions of a rank.
struct TimeSlice {
  std::int64_t first = 0, count = 0;
};
/// Fault::Usage if the ranks do not divide `time`.
TimeSlice time_slice(std::int64_t time, const comm::Communicator& group);

/// [batch, time, …] as [rank, batch, slice, …], without a copy.
at::Tensor by_rank(const at::Tensor& values, const comm::Communicator& group);
/// The other way round.
at::Tensor in_time(const at::Tensor& values);

/// The slices of all ranks, on their way while the caller goes on.
class GatheredSlices {
 public:
  /// `slice` is [batch, slice, …].
  GatheredSlices(const at::Tensor& slice, comm::Communicator& group);
  /// [rank, batch, slice, …], once they are there.
  at::Tensor by_rank();

 private:
  c10::Device device_;
  at::Tensor all_;
  comm::Work work_;
};

/// [batch, slice, …] to [batch, time, …] on all ranks, of which each goes on with its part of a layer: slopes are
/// summed over the ranks, to slices.
at::Tensor gather_slices(const at::Tensor& slice, comm::Communicator& group);
/// Each rank's share of a sum, [batch, time, …], becomes its slice of the sum; slopes are gathered.
at::Tensor sum_to_slices(const at::Tensor& shares, comm::Communicator& group);

}  // namespace lockstep::parallel
