// lockstep/models/sampling.h
//
// Which token comes next, drawn by the scores that a model gives to all of them.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/core/random.h"

namespace lockstep::models {

struct Sampling {
  double temperature = 1;  // scores are divided by it; 0: the highest wins
  std::int64_t top_k = 0;  // above 0: only the so many likeliest
  double top_p = 1;        // only the likeliest that have this share of the probability together; at least one

  /// Fault::Usage, naming the option of the command line, if a value makes no sense.
  void check() const;
};

/// `scores` are of one token each, [words], logarithms of probabilities but for a constant. Of equal ones the first is
/// likelier. Every call takes one number of `random`, but for temperature 0, which takes none. Fault::Data if the
/// scores are no numbers.
std::int64_t draw(const at::Tensor& scores, const Sampling& how, Random& random);

}  // namespace lockstep::models
