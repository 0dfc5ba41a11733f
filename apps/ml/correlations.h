// apps/ml/correlations.h
//
// Correlations for people.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::apps {

/// The strongest of a matrix, at most ten, a line each; those of constant columns are left out.
void print_strongest(const at::Tensor& correlation, const std::vector<std::string>& names);

}  // namespace lockstep::apps
