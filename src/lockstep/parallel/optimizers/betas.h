// lockstep/parallel/optimizers/betas.h
//
// What Adam and its relatives keep of their two running means from one step to the next.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/config.h"
#include "lockstep/core/error.h"

namespace lockstep::parallel {

struct Betas {
  double mean;    // of gradients
  double square;  // of their squares

  static Betas read(const Config& recipe, const std::string& key) {
    const auto betas = recipe.get(key + ".betas", std::vector<double>{0.9, 0.999});
    if (betas.size() != 2 || !(betas[0] >= 0 && betas[0] < 1 && betas[1] >= 0 && betas[1] < 1)) {
      fail(Fault::Usage, key + ".betas are two numbers from 0 to below 1, such as [0.9, 0.999]");
    }
    return {betas[0], betas[1]};
  }
  /// How much of a mean that began with zeros is gradients after so many steps.
  static double share(double beta, std::int64_t steps) { return 1 - std::pow(beta, static_cast<double>(steps)); }
};

}  // namespace lockstep::parallel
