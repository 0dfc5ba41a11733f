// lockstep/ml/too_large.h
//
// Distances are of squares and covariances of products, which values may be too large for.
#pragma once

#include "lockstep/core/error.h"

namespace lockstep::ml {

[[noreturn]] inline void fail_of_large_squares() {
  fail(Fault::Data, "squares of the values are too large; scale the columns");
}

[[noreturn]] inline void fail_of_large_products() {
  fail(Fault::Data, "products of the columns are too large for float64; scale the columns");
}

}  // namespace lockstep::ml
