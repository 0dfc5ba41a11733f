#include "lockstep/train/layout_agreement.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/train/memory_forecast.h"
#include "lockstep/train/memory_limit.h"
#include "lockstep/train/stage_shares.h"

namespace lockstep::train {
namespace {

/// What choose_layout() decides.
struct Chosen {
  int data, tensor, pipe, zero, zero_ranks;
  std::int64_t recompute_every;
};

template <class Value>
std::string bytes_of(const Value* values, std::size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(Value)};
}

}  // namespace

AgreedLayout agree_on_layout(const RunOutline& run, comm::Communicator& world, const std::optional<Layout>& before) {
  const auto& hosts = world.hosts();
  if (!run.mesh.automatic) return {given_layout(run, hosts), {}};
  AgreedLayout result;
  Chosen chosen{};
  const auto own_host = std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(world.rank())]);
  const auto rooms = comm::gather_one_each(world, memory_limit(static_cast<int>(own_host)).room(), "memory of ranks");
  if (world.rank() == 0) {
    const auto choice =
        choose_layout([&](int tensor) -> const auto& { return run.probe->costs(tensor); },
                      limits_of(run, hosts, *std::min_element(rooms.begin(), rooms.end())), facts_of(run), before);
    const Layout& layout = choice.chosen.layout;
    chosen = {layout.data, layout.tensor, layout.pipe, layout.zero, layout.zero_ranks, layout.recompute_every};
    result.reasons = choice.reasons;
  }
  const std::string bytes = world.broadcast_bytes(bytes_of(&chosen, 1), 0);
  std::memcpy(&chosen, bytes.data(), sizeof(chosen));
  result.layout = limits_of(run, hosts, 0).given;
  result.layout.data = chosen.data;
  result.layout.tensor = chosen.tensor;
  result.layout.pipe = chosen.pipe;
  result.layout.zero = chosen.zero;
  result.layout.zero_ranks = chosen.zero_ranks;
  result.layout.recompute_every = chosen.recompute_every;
  return result;
}

AgreedCosts agree_on_costs(const RunOutline& run, const Layout& layout, comm::Communicator& world) {
  if (layout.pipe == 1 || !run.mesh.measured || !run.mesh.cuts.empty()) return {};
  AgreedCosts result;
  if (world.rank() == 0) {
    try {
      result.costs = seconds_of(run.probe->costs(layout.tensor), facts_of(run).samples_at_once(layout));
    } catch (const Error& error) {
      result.why_not = error.what();
    }
  }
  const std::string bytes = world.broadcast_bytes(bytes_of(result.costs.data(), result.costs.size()), 0);
  result.costs.resize(bytes.size() / sizeof(double));
  std::memcpy(result.costs.data(), bytes.data(), bytes.size());
  return result;
}

}  // namespace lockstep::train
