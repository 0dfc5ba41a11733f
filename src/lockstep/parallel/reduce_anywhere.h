// lockstep/parallel/reduce_anywhere.h
//
// An all-reduce in place of tensors wherever they are: those of a GPU go through memory of the host.
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/waiting.h"

namespace lockstep::parallel {

inline void reduce_anywhere_(const std::vector<at::Tensor>& tensors, comm::ReduceOp op, comm::Communicator& group,
                             const char* name) {
  std::vector<at::Tensor> on_host;
  for (const at::Tensor& one : tensors) on_host.push_back(one.cpu());  // itself, if it is there
  wait_for_ranks([&] { return group.all_reduce_(on_host, op, {.name = name}); });
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    if (!tensors[number].is_cpu()) tensors[number].copy_(on_host[number]);
  }
}

}  // namespace lockstep::parallel
