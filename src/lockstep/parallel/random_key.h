// lockstep/parallel/random_key.h
//
// What the randomness of a layer depends on beside its place in the model: the run's
// seed, the step, and the virtual shard of the batch, or rank, whose samples pass. Set for
// the calling thread by whoever drives the model, so that masks do not depend on how shards
// are spread over ranks and threads.
#pragma once

#include <cstdint>

namespace lockstep::parallel {

struct RandomKey {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t shard = 0;
};

/// Of the calling thread.
RandomKey& random_key() noexcept;

}  // namespace lockstep::parallel
