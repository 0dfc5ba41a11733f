#include "lockstep/train/layout.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::train {

// What noted() keeps.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Layout, data, tensor, pipe, chunks, cuts, cuts_are_measured, zero, zero_ranks,
                                   recompute_every)

namespace {

std::int64_t shared(std::int64_t samples, std::int64_t by) { return samples / by + (samples % by != 0 ? 1 : 0); }

}  // namespace

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

nlohmann::json noted(const Layout& layout) { return layout; }

std::optional<Layout> noted_layout(const nlohmann::json& noted) {
  if (noted.is_null()) return std::nullopt;
  return noted.get<Layout>();
}

int fewest_ranks_of_a_host(const std::vector<int>& hosts) {
  std::map<int, int> ranks;
  for (const int host : hosts) ++ranks[host];
  int fewest = static_cast<int>(hosts.size());
  for (const auto& [host, count] : ranks) fewest = std::min(fewest, count);
  return fewest;
}

std::int64_t RunFacts::samples_of_rank(const Layout& layout) const { return shared(batch(layout.data), layout.data); }

std::int64_t RunFacts::samples_at_once(const Layout& layout) const {
  return shared(samples_of_rank(layout), layout.micro_batches);
}

std::int64_t RunFacts::pieces(const Layout& layout) const {
  return layout.pipe > 1 ? layout.micro_batches : std::min(layout.micro_batches, samples_of_rank(layout));
}

}  // namespace lockstep::train
