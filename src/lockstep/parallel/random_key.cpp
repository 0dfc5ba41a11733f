#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {

RandomKey& random_key() noexcept {
  thread_local RandomKey key;
  return key;
}

}  // namespace lockstep::parallel
