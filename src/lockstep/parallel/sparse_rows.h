// lockstep/parallel/sparse_rows.h
//
// A gradient that is zero but for some rows, as that of an embedding, and its sum over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::parallel {

struct SparseRows {
  at::Tensor rows;    // [count], int64, ascending, each once
  at::Tensor values;  // [count, width]
};

/// Of a sparse gradient, in which rows may come more than once; an undefined one has none. `like` is the parameter.
SparseRows rows_of(const at::Tensor& gradient, const at::Tensor& like);
/// Over all ranks, whose rows may be other ones and as many as they like; the same bits on each. A collective.
SparseRows sum_over_ranks(const SparseRows& mine, comm::Communicator& group);

}  // namespace lockstep::parallel
