// lockstep/parallel/module_parameters.h
//
// What a torch::nn::Module holds, by name, for headers that need not read all of torch.
#pragma once

#include <set>
#include <string>

#include "lockstep/parallel/parameter.h"

namespace torch::nn {
class Module;
}

namespace lockstep::parallel {

Parameters parameters_of(const torch::nn::Module& model);
/// Fault::Usage if a tensor is there under two names: it would be split, summed and stepped as two.
void check_registered_once(const Parameters& parameters);
/// Names of the weights of embeddings that were made with sparse(true): gradients come as some of their rows.
std::set<std::string> sparse_parameters_of(const torch::nn::Module& model);
/// Such as the running statistics of a batch norm.
Parameters buffers_of(const torch::nn::Module& model);

}  // namespace lockstep::parallel
