// lockstep/comm/endpoint.h
//
// One rank's place on its host: the shared segment, its arena, and the thread that
// carries queued collectives forward. Every Communicator of the rank shares it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lockstep/comm/arena.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/segment.h"
#include "lockstep/comm/tuning.h"

namespace lockstep::comm {

/// Collectives of one lane of one communicator, performed in the order they came.
struct OperationQueue {
  std::deque<std::shared_ptr<Operation>> operations;
  std::atomic<int> length{0};
};

struct EndpointOptions {
  int world_rank = 0;
  std::vector<int> world_rank_of;  // by rank on this host
  double timeout_s = 300;          // 0: never
  std::vector<int> comm_cpus;      // of all ranks on the host: pin the communication threads; empty: not pinned
  bool private_buffers = false;    // ranks as threads: stage tensors as processes must
};

class Endpoint {
 public:
  Endpoint(std::shared_ptr<Segment> segment, int local_rank, EndpointOptions options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const Segment& segment() const noexcept { return *segment_; }
  const std::shared_ptr<Segment>& shared_segment() const noexcept { return segment_; }
  int local_rank() const noexcept { return local_rank_; }
  int world_rank_of(int local_rank) const noexcept {
    return options_.world_rank_of[static_cast<std::size_t>(local_rank)];
  }
  const Tuning& tuning() const noexcept { return tuning_; }
  /// How often a waiting thread looks before it gives its core away.
  int spins() const noexcept { return spins_; }

  /// A number by which peers find `pointer`; 0 if they cannot.
  std::uint64_t address_of(const void* pointer) const noexcept {
    if (segment_->threads()) return reinterpret_cast<std::uint64_t>(pointer);
    const auto* byte = static_cast<const std::byte*>(pointer);
    return byte >= segment_->base() && byte < segment_->base() + segment_->bytes()
               ? static_cast<std::uint64_t>(byte - segment_->base())
               : 0;
  }
  /// The same for a tensor's memory; 0 also where it is to be staged all the same.
  std::uint64_t address_of_buffer(const void* pointer) const noexcept {
    return options_.private_buffers ? 0 : address_of(pointer);
  }
  std::byte* pointer_at(std::uint64_t address) const noexcept {
    return segment_->threads() ? reinterpret_cast<std::byte*>(address) : segment_->base() + address;
  }
  /// Memory that peers reach through address_of; freed with the last owner.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);
  /// The same with every byte 0, its pages still untouched.
  std::shared_ptr<std::byte> allocate_zeroed(std::size_t bytes);
  const std::shared_ptr<Arena>& arena() const noexcept { return arena_; }
  /// Keeps the memory of a channel until all its members have left it.
  void bury(std::shared_ptr<std::byte> channel, int members);
  /// Keeps memory that a peer or the network may still be working in, beyond the endpoint itself.
  void outlive(std::shared_ptr<void> memory) const;
  void outlive(const at::Tensor& tensor) const;

  /// Makes `message` the first cause unless there is one, releases every rank of the run,
  /// and throws the first cause.
  [[noreturn]] void fail_for_all(const std::string& message) const;

  /// Performs `operation` on the calling thread.
  void run(Operation& operation);
  /// Hands `operation` to the communication thread.
  void enqueue(OperationQueue& queue, std::shared_ptr<Operation> operation);
  /// Returns when `operation` is done; performs it here if nobody has begun.
  void wait(OperationQueue& queue, Operation& operation);
  /// Takes `queue` out of service: finishes what is queued, or drops it if `abandon`.
  void retire(OperationQueue& queue, bool abandon);
  void enlist(OperationQueue& queue);

 private:
  void begin(Operation& operation, int spins) const;
  void finish(OperationQueue& queue, Operation& operation, std::exception_ptr error);
  void pause(std::span<Operation* const> operations, int& rounds, std::uint32_t rings_seen) const;
  void examine(Operation& operation) const;
  void settle(Operation& operation) const;
  void waits_no_more(Operation& operation) const;
  void communication_loop();

  std::shared_ptr<Segment> segment_;
  int local_rank_;
  EndpointOptions options_;
  std::shared_ptr<Arena> arena_;
  Tuning tuning_;
  int spins_;
  int yields_;

  struct Grave {
    std::shared_ptr<std::byte> block;
    int members;
  };
  std::mutex graves_mutex_;
  std::vector<Grave> graves_;

  std::mutex mutex_;
  std::condition_variable changed_;  // an operation ended, or the thread stopped
  std::vector<OperationQueue*> queues_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
