// lockstep/parallel/random_key.h
//
// What the randomness of a layer depends on beside its place in the model: the run's
// seed, the step, and which samples of the step's batch pass. Set for the calling thread by
// whoever drives the model, so that masks do not depend on how samples are spread over ranks,
// shards and pieces.
#pragma once

#include <cstdint>

namespace lockstep::parallel {

struct RandomKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t sample = 0;  // the first that passes, by its place in the batch of all ranks
};

/// Of the calling thread.
RandomKey& random_key() noexcept;

}  // namespace lockstep::parallel
