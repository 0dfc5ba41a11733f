// lockstep/parallel/matrix_products.h
//
// Products of matrices by the library that computes them fastest on this processor. libtorch asks MKL for
// those of float32, which uses half of the width of the vectors that AMD's processors have; oneDNN, which
// comes with libtorch for convolutions, uses all of it.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

/// As at::linear, of rows of any number of dims; autograd goes through it.
at::Tensor linear_map(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias = {});

// Of two matrices, without autograd.
at::Tensor product(const at::Tensor& left, const at::Tensor& right);
// The target may be of another type, as the float32 of products that are of bfloat16, or on another device.
void product_out(const at::Tensor& target, const at::Tensor& left, const at::Tensor& right);
void add_product(const at::Tensor& target, const at::Tensor& left, const at::Tensor& right);

}  // namespace lockstep::parallel
