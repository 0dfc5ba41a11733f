// lockstep/comm/backend.h
//
// A Backend performs collectives on contiguous memory. The Communicator in front
// of it has checked the arguments, so a Backend trusts its Request:
//
//   all_reduce      output: count elements, reduced in place
//   reduce          output: count elements; the root's are replaced by the result
//   reduce_scatter  input: size x count elements; output: count
//   reduce_update   input: count elements; output: count, of which `update` changes owned()
//   broadcast       output: count elements, the root's go to everyone
//   all_gather      input: send_counts[0]; output: recv_counts, one after another
//   gather          input: send_counts[0]; output at the root: recv_counts
//   scatter         input at the root: send_counts; output: recv_counts[0]
//   all_to_all      input: send_counts; output: recv_counts
//   send, recv      input or output: count elements; descriptor.root is the peer
//
// Processes find theirs through WorldRegistry, see world.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/operation.h"
#include "lockstep/comm/slice.h"

namespace lockstep::comm {

class Endpoint;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// The rank in the world of rank `rank` of this group, for messages.
  virtual int world_rank(int rank) const noexcept = 0;

  /// The elements of `count` that this rank is the owner of in a reduce_update.
  virtual std::vector<Slice> owned(std::int64_t count, std::size_t element_bytes) const = 0;
  virtual Task run(const Request& request) = 0;
  /// Sends what a request needs sent first, if it is so small that a coroutine would cost
  /// more than the request; the caller then has time for its books. False: nothing happened.
  virtual bool begin_at_once(const Request& request) = 0;
  /// Goes on with it on the calling thread. False after `spins` looks at the peers: run()
  /// then takes over.
  virtual bool finish_at_once(const Request& request, int spins) = 0;
  /// Tells the others what this rank issues, so that ranks that disagree can be told apart.
  virtual void issued(const Descriptor& descriptor) noexcept = 0;
  /// Called now and then while an Operation waits: fails for all when ranks disagree on it
  /// or one has ended without it.
  virtual void examine(const Operation& operation) = 0;
  /// Who keeps `operation` waiting and where they are, in words.
  virtual std::string absentees(const Operation& operation) = 0;
  /// The group of `members` (ranks of this group, in the order of the new ranks), called
  /// by all of them; `exchange` gathers one string of every rank of this group.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;
  virtual std::unique_ptr<Backend> subgroup(const std::vector<int>& members, const Exchange& exchange) = 0;
};

}  // namespace lockstep::comm
