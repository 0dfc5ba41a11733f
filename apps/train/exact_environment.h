// apps/train/exact_environment.h
//
// Bits depend on the instructions that libraries choose by processor. Exact mode pins
// them, which must happen before the libraries are loaded: in the environment of the ranks.
#pragma once

namespace lockstep::apps {

/// What is set already is left as it is.
void set_exact_environment();

}  // namespace lockstep::apps
