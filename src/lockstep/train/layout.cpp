#include "lockstep/train/layout.h"

#include <fmt/format.h>

namespace lockstep::train {

std::string Layout::text() const {
  std::string all = fmt::format("data {}", data);
  if (tensor > 1) all += fmt::format(", tensor {}", tensor);
  if (pipe > 1) all += fmt::format(", pipe {}", pipe);
  if (zero > 0) all += fmt::format(", zero {}", zero);
  if (zero > 0 && zero_ranks > 0 && zero_ranks < data) all += fmt::format(" of {} ranks", zero_ranks);
  if (offload != kOffloadNothing) all += ", offload " + offload;
  if (recompute_every == 1) all += ", recompute";
  if (recompute_every > 1) all += fmt::format(", recompute 1 of {}", recompute_every);
  return all;
}

int Layout::data_ranks_of_host(int ranks_of_host) const noexcept {
  int most = 1;
  for (int one = 1; one <= data && one * tensor <= ranks_of_host; ++one) {
    if (data % one == 0) most = one;
  }
  return most;
}

std::int64_t RunFacts::samples_at_once(const Layout& layout) const {
  const auto shared = [](std::int64_t samples, std::int64_t by) { return samples / by + (samples % by != 0 ? 1 : 0); };
  return shared(shared(batch(layout.data), layout.data), layout.micro_batches);
}

}  // namespace lockstep::train
