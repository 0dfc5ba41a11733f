// lockstep/parallel/tensor_parallel.h
//
// What layers do that are split over ranks, each of which has all samples and a part of every
// layer: where activations of all ranks become one, or one becomes those of all, the gradients go
// the other way round. And the plan that says which layers are split, and how.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"

namespace torch::nn {
class Module;
}

namespace lockstep::parallel {

/// The same on all ranks, of which each goes on with its part of a layer: gradients are summed over the ranks.
at::Tensor to_all_ranks(const at::Tensor& values, comm::Communicator& group);
/// Each rank's share of a sum becomes the sum, on all of them.
at::Tensor sum_of_ranks(const at::Tensor& shares, comm::Communicator& group);

/// A copy of `shares` in memory of the communicator, which becomes their sum over all ranks while the caller goes on.
std::pair<at::Tensor, comm::Work> start_sum(const at::Tensor& shares, comm::Communicator& group,
                                            const comm::CallOptions& options);

/// By pattern of a layer's name ("*" is anything), how it is split, see Layer::split.
using TensorPlan = std::map<std::string, std::string>;

/// Fault::Usage, naming the layer, the pattern and the ranks, if a pattern fits no layer or a layer cannot be split so.
void split_layers(torch::nn::Module& model, const TensorPlan& plan, comm::Communicator& group);

}  // namespace lockstep::parallel
