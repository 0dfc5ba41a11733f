#include "lockstep/parallel/optimizers/adam_family.h"

namespace lockstep::parallel {
namespace {

const OptimizerRegistry::Add registered{"adamw",
                                        "Adam whose weight decay is none of the gradient's, with betas and eps",
                                        [](const Config& recipe, const std::string& key) {
                                          return std::make_unique<AdamFamily>(recipe, key, Decay::OfWeight);
                                        }};

}  // namespace
}  // namespace lockstep::parallel
