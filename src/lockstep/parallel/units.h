// lockstep/parallel/units.h
//
// Units are what ranks share the parameters of a model out by: those of a link, or of several small
// ones, lie one behind the other in a run of elements, which is cut into as many equal shards as there
// are ranks. A shard knows nothing of where one parameter ends: it is gathered, reduced and stepped as
// one run, and what saves and loads it asks for its slices of parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/parallel/parameter_part.h"

namespace lockstep::parallel {

struct Unit {
  std::string name;  // of its first link
  at::ScalarType type = at::kFloat;
  std::vector<std::size_t> parameters;  // their numbers
  std::vector<std::int64_t> firsts;     // where each begins in the run
  std::int64_t elements = 0;            // of the run; between parameters and behind them there may be some of nobody
  std::vector<std::size_t> links;       // that use it, ascending

  bool used_by(std::size_t link) const;
  std::int64_t bytes() const;
};

/// Links are taken together until their parameters have `least_bytes`. A parameter that several links use which are not
/// of one unit, and each of the names `alone`, is a unit of its own; those of the names `by_link` that the same links
/// use are one. `cuts` are links that begin a piece of the model
/// which others do not pass through together with those before. In the order of their first links.
std::vector<Unit> units_of(const Parameters& parameters, const Chain& chain, const std::vector<std::size_t>& cuts,
                           const std::set<std::string>& alone, std::int64_t least_bytes, int shards,
                           const std::set<std::string>& by_link = {});

/// What runs of two links may take at once, if nobody says another number.
inline constexpr std::int64_t kOverlapBytes = 64'000'000;

/// Whether runs of neighbouring links are in memory at once: if they take no more than `bytes`, or two units of usual
/// size. A matter of sizes alone, so that all ranks find the same.
class Overlap {
 public:
  explicit Overlap(const std::vector<Unit>& units, std::int64_t bytes = kOverlapBytes);
  /// Of all that two links use.
  bool together(std::size_t link, std::size_t other) const;
  /// The run twice, as weights and as gradients.
  bool twice(const Unit& unit) const { return 2 * unit.bytes() <= bytes_; }

 private:
  const std::vector<Unit>& units_;
  std::int64_t bytes_;
};

/// What a shard has of a parameter.
struct ParameterSlice {
  std::size_t parameter = 0;
  std::int64_t first = 0;  // in the shard
  Window window = {};      // of the parameter; its count may be 0
};
/// Of every parameter of the unit, in their order.
std::vector<ParameterSlice> slices_of(const Unit& unit, const Parameters& parameters, int shard, int shards);

}  // namespace lockstep::parallel
