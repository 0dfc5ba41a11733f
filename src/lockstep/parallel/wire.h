// lockstep/parallel/wire.h
//
// How the gradients of a bucket travel where they shall not travel as they are: rounded to
// fewer bits, or only the largest of them. A Wire sums over the ranks as an all-reduce does,
// with the same bits on all of them. What a rank could not send now it may remember and send
// later (error feedback); a run that is resumed begins without it. A new one is one new file in
// wires/.
//
// A number that is not finite arrives as one that is not finite, and is not remembered.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/config.h"
#include "lockstep/core/registry.h"

namespace lockstep::parallel {

class Wire {
 public:
  virtual ~Wire() = default;
  /// Puts bucket `number` on its way, without waiting; `gradients` are not to be touched before finish(). All ranks
  /// start the same buckets in the same order, in the midst of backward. A bucket never changes its size.
  virtual void start(comm::Communicator& group, std::size_t number, const at::Tensor& gradients) = 0;
  /// Returns once all gradients that were started are the sum over the ranks.
  virtual void finish(comm::Communicator& group) = 0;
  /// What is remembered is of gradients that are not to be applied, or that will come in another scale from now on.
  virtual void forget() {}
};

/// Of collectives that start() issues: however small, backward goes on meanwhile.
inline constexpr comm::CallOptions kOnItsWay{.name = "gradients", .lane = comm::Lane::Bulk};

using WireRegistry = Registry<std::unique_ptr<Wire>(const Config& recipe, const std::string& key)>;

/// The one that key.name names; nullptr where that is "none", which it is by default.
std::unique_ptr<Wire> make_wire(const Config& recipe, const std::string& key);

}  // namespace lockstep::parallel
