#include "lockstep/parallel/gradient_engine.h"

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/module_parameters.h"

namespace lockstep::parallel {
namespace {

/// Of a stage the model is only what its links use, and others may have enough that is trained.
[[noreturn]] void refuse_untrained(const Parameters& all) {
  std::vector<std::string> names;
  for (const auto& parameter : all) names.push_back(parameter.name);
  constexpr std::size_t kMostNames = 5;
  const std::string remedy =
      "there is nothing to train here: thaw some (model.frozen), or, where a pipeline cuts the model, give this stage "
      "blocks that are trained (parallel.cuts) or have fewer stages";
  if (names.empty()) fail(Fault::Usage, "this rank has no parameters, so " + remedy);
  fail(Fault::Usage, fmt::format("none of the parameters that this rank has requires a gradient ({}), so {}",
                                 list_some(names, kMostNames), remedy));
}

}  // namespace

Parameters trained(const Parameters& all) {
  check_registered_once(all);
  Parameters result;
  for (const auto& parameter : all) {
    if (parameter.tensor.requires_grad()) result.push_back(parameter);
  }
  if (result.empty()) refuse_untrained(all);
  return result;
}

}  // namespace lockstep::parallel
