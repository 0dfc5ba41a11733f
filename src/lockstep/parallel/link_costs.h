// lockstep/parallel/link_costs.h
//
// What the links of a model cost a rank, as numbers alone: whoever cuts a model, foretells its memory or
// chooses a layout works on them, and needs neither the model nor its weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/parameter.h"

namespace lockstep::parallel {

/// It grows with the samples that pass at once.
struct Amount {
  double fixed = 0;
  double per_sample = 0;
  double at(std::int64_t samples) const noexcept {
    return std::max(0.0, fixed + per_sample * static_cast<double>(samples));
  }
};

/// Of forward and backward of a link; all but `seconds` in bytes.
struct LinkCosts {
  Amount seconds;
  Amount output;
  Amount kept;    // from forward on until backward, the output included
  Amount peak;    // at most, of what it keeps, needs meanwhile and gives to the links before and behind it
  Amount summed;  // over the ranks of the tensor axis
};

struct ModelCosts {
  Chain chain;            // names and modules; there is nothing to run
  Parameters parameters;  // shapes alone, of a rank's part where layers are split
  Parameters buffers;     // so too
  std::vector<LinkCosts> links;
  LinkCosts loss;
  Amount input;                        // of the first link
  bool sparse = false;                 // some gradients come as rows
  std::set<std::string> partial = {};  // parameters of which ranks of the tensor axis have gradients in part
};

}  // namespace lockstep::parallel
