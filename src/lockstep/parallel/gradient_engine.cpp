#include "lockstep/parallel/gradient_engine.h"

#include "lockstep/core/error.h"

namespace lockstep::parallel {

Parameters trained(const Parameters& all) {
  Parameters result;
  for (const auto& parameter : all) {
    if (parameter.tensor.requires_grad()) result.push_back(parameter);
  }
  if (result.empty())
    fail(Fault::Usage, "the model has no parameter that requires a gradient: there is nothing to train");
  return result;
}

}  // namespace lockstep::parallel
