// lockstep/data/transformed.h
//
// A data set whose samples have gone through transforms: for what must be done before
// samples are put into an order or packed, as text is tokenised before its length is known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Steps as of a Pipeline. Their randomness is keyed by seed and sample: it is the same in every epoch.
DatasetPtr transformed(DatasetPtr source, const std::vector<std::string>& steps, std::uint64_t seed = 0);

}  // namespace lockstep::data
