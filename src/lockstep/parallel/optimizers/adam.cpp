#include "lockstep/parallel/optimizers/adam_family.h"

namespace lockstep::parallel {
namespace {

const OptimizerRegistry::Add registered{"adam", "Adaptive moments, with betas and eps",
                                        [](const Config& recipe, const std::string& key) {
                                          return std::make_unique<AdamFamily>(recipe, key, Decay::OfGradient);
                                        }};

}  // namespace
}  // namespace lockstep::parallel
