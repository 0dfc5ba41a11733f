// lockstep/comm/communicator.h
//
// A Communicator is a group of ranks and the collectives they perform together.
// All ranks call the same collectives in the same order; a rank that does not is
// named in the Error that every rank then throws. A collective returns once queued
// (a small one, done); its tensors hold the result after Work::wait() and must not
// be touched before. A sum has the same bits on every back-end: it follows one
// fixed tree over the ranks. Collectives of one lane keep their order, urgent ones
// pass bulk ones. One thread at a time uses a Communicator.
//
// Tensors are on the CPU, of any real, integer or bool type and any strides; those
// made by empty() are worked on in place, others through a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/slice.h"
#include "lockstep/comm/types.h"
#include "lockstep/comm/update.h"
#include "lockstep/comm/work.h"

namespace lockstep::comm {

class Backend;
class Endpoint;
struct Request;
struct OperationQueue;

struct CallOptions {
  /// Shown in messages and traces, and compared between ranks (its first 31 characters).
  const char* name = nullptr;
  /// By default small collectives are urgent and large ones bulk.
  std::optional<Lane> lane = std::nullopt;
};

/// Totals since the start, per kind of collective.
struct CollectiveStatistics {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  std::int64_t on_caller = 0;  // of calls: performed by the calling thread
};

class Communicator {
 public:
  Communicator(std::shared_ptr<Endpoint> endpoint, std::unique_ptr<Backend> backend);
  /// Finishes what is queued, except while an exception unwinds.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// "self", "threads", "shm", "mpi" or "hier".
  const char* backend() const noexcept;
  /// The rank in the world of a rank of this group.
  int world_rank(int rank) const noexcept;
  /// By rank, the host that it is on, as the first rank of the world there. A collective.
  std::vector<int> hosts();

  /// Memory that the ranks of the host map, so that collectives work in it in place.
  /// The tensor is an ordinary one: it may be moved, resized, freed, and outlive this.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type);

  /// Replaces `tensor` on every rank by the reduction over all ranks.
  Work all_reduce_(const at::Tensor& tensor, ReduceOp op, CallOptions options = {});
  /// The same for several tensors as one collective.
  Work all_reduce_(const std::vector<at::Tensor>& tensors, ReduceOp op, CallOptions options = {});
  /// The same for virtual shards: this rank's are shards_of_rank(shards in all, size(), rank()).
  /// `result` becomes the reduction over the shards of all ranks, with the same bits for any
  /// number of ranks. Avg divides by the number of shards.
  Work all_reduce_shards(const at::Tensor& result, const std::vector<at::Tensor>& shards, ReduceOp op,
                         CallOptions options = {});
  /// `output` becomes part rank() of the reduction of `input`, which has size() times its elements.
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, CallOptions options = {});
  /// Reduces `input` and makes new values of `target` of it, in one sweep: of elements that this rank owns, see
  /// owned(), `update` gets the reduction and changes this rank's `target`; then every rank's `target` is that.
  /// `update` is called on whatever thread performs the collective. `input` stays as it is.
  Work reduce_update_(const at::Tensor& target, const at::Tensor& input, ReduceOp op, Update update,
                      CallOptions options = {});
  /// Parts of `count` elements that this rank is the owner of: each element has one owner.
  std::vector<Slice> owned(std::int64_t count, at::ScalarType type) const;
  /// Replaces the root's `tensor` by the reduction over all ranks; others keep theirs.
  Work reduce_(const at::Tensor& tensor, ReduceOp op, int root, CallOptions options = {});
  Work broadcast_(const at::Tensor& tensor, int root, CallOptions options = {});
  Work broadcast_(const std::vector<at::Tensor>& tensors, int root, CallOptions options = {});

  /// `output` becomes the inputs of all ranks, one after another. Without `counts` all are of
  /// equal size; else counts[r] elements come from rank r.
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::vector<std::int64_t> counts = {},
                  CallOptions options = {});
  /// The same into the root's `output`; other ranks pass an undefined tensor.
  Work gather(const at::Tensor& output, const at::Tensor& input, int root, std::vector<std::int64_t> counts = {},
              CallOptions options = {});
  /// The root's `input` in parts; other ranks pass an undefined tensor.
  Work scatter(const at::Tensor& output, const at::Tensor& input, int root, std::vector<std::int64_t> counts = {},
               CallOptions options = {});
  /// Part r of `input` goes to rank r. Without counts all parts are of equal size.
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::vector<std::int64_t> send_counts = {},
                  std::vector<std::int64_t> recv_counts = {}, CallOptions options = {});

  /// Messages between two ranks arrive in the order they were sent.
  Work send(const at::Tensor& tensor, int to, CallOptions options = {});
  Work recv_(const at::Tensor& tensor, int from, CallOptions options = {});

  void barrier(const char* name = nullptr);

  /// The root's bytes on every rank.
  std::string broadcast_bytes(const std::string& bytes, int root);
  /// Every rank's bytes on every rank, by rank.
  std::vector<std::string> gather_bytes(const std::string& bytes);

  /// Groups of the ranks with equal `color`, ordered by `key`, then rank; a negative color
  /// gives no group (nullptr). All ranks of this group call it.
  std::unique_ptr<Communicator> split(int color, int key = 0);
  std::unique_ptr<Communicator> duplicate();

  const CollectiveStatistics& statistics(Collective collective) const noexcept;

 private:
  class Contiguous;
  Work issue(Request&& request, std::initializer_list<const Contiguous*> tensors);
  bool idle(Lane lane) const noexcept;
  /// What ranks must mean alike beside what the tensor itself says.
  struct Meaning {
    int shards = 0;            // of all ranks together, in all_reduce_shards
    std::uint16_t blocks = 0;  // see Descriptor: how a group of tensors is cut
  };
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, const CallOptions& options, Meaning meaning);
  Work broadcast(const at::Tensor& tensor, int root, const CallOptions& options, Meaning meaning);
  Request prepare(Collective collective, const at::Tensor& tensor, std::int64_t count,
                  const CallOptions& options) const;
  void check(const at::Tensor& tensor, const char* what) const;
  void check_peer(int peer, const char* what) const;
  void check_same_type(const at::Tensor& output, const at::Tensor& input) const;
  void check_own_count(const std::vector<std::int64_t>& counts, const at::Tensor& tensor, const char* what) const;
  /// Calls `call` once per type in `tensors`, with all tensors of that type as one.
  Work together(const std::vector<at::Tensor>& tensors, const std::function<Work(const at::Tensor&, Meaning)>& call);
  std::vector<std::int64_t> block_counts(std::vector<std::int64_t> counts, std::int64_t elements,
                                         const char* what) const;

  std::shared_ptr<Endpoint> endpoint_;
  std::unique_ptr<Backend> backend_;
  int rank_;
  int size_;
  const at::Tensor nothing_;
  std::uint64_t issued_ = 0;
  std::vector<std::shared_ptr<OperationQueue>> lanes_;
  std::vector<std::shared_ptr<OperationQueue>> sends_;  // by peer, made on first use
  std::vector<std::shared_ptr<OperationQueue>> receives_;
  std::vector<CollectiveStatistics> statistics_;
};

}  // namespace lockstep::comm
