// lockstep/ml/too_large.h
//
// Distances are of squares, which values may be too large for.
#pragma once

#include "lockstep/core/error.h"

namespace lockstep::ml {

[[noreturn]] inline void fail_of_large_squares() {
  fail(Fault::Data, "squares of the values are too large; scale the columns");
}

}  // namespace lockstep::ml
