// lockstep/ml/algorithms/centroid_columns.h
//
// Centroids of a tensor as the sweep over rows reads them.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/ml/kernels/assign.h"

namespace lockstep::ml {

/// `centers` is float64 [count, columns], contiguous.
template <class T>
CentroidColumns<T> centroid_columns(const at::Tensor& centers) {
  return {
      {centers.const_data_ptr<double>(), static_cast<std::size_t>(centers.numel())}, centers.size(0), centers.size(1)};
}

}  // namespace lockstep::ml
