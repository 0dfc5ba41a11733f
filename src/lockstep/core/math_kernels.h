// lockstep/core/math_kernels.h
//
// MKL chooses the kernel of an elementwise function (sin, exp, tanh …) when it is first called. A thread that calls it
// in that moment may be given one of low accuracy, 1e-8 in float64, and is not told (PyTorch issue 188792).
#pragma once

namespace lockstep {

/// Has all of them chosen, once per process: before there are threads that compute.
void choose_math_kernels();

}  // namespace lockstep
