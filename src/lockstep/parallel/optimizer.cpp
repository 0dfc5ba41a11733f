#include "lockstep/parallel/optimizer.h"

namespace lockstep::parallel {

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, const Config& recipe, const std::string& key) {
  auto optimizer = OptimizerRegistry::instance().at("optimizer", name)(recipe, key);
  optimizer->name = name;
  return optimizer;
}

}  // namespace lockstep::parallel
