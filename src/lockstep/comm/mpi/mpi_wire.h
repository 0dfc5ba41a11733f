// lockstep/comm/mpi/mpi_wire.h
//
// A Wire over MPI: portable MPI-3 calls only, nothing that blocks.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lockstep/comm/wire.h"

namespace lockstep::comm {

/// Fails with MPI's own words if `code` is an error.
void check_mpi(int code, const char* what);

class MpiWire final : public Wire {
 public:
  struct Options {
    std::function<void(const std::string&)> on_error;  // must throw
    /// Whether the run has failed: peers then join nothing that is collective.
    std::function<bool()> aborted = [] { return false; };
    /// Memory that messages may lie in though their owner does not hold it: that of peers.
    std::shared_ptr<const void> memory = nullptr;
    /// MPI counts are int; larger messages go in several.
    std::size_t most_bytes = std::size_t{1} << 30;
  };
  /// Duplicates `world`; all its ranks call it.
  MpiWire(MPI_Comm world, Options options);
  ~MpiWire() override;

  std::unique_ptr<Message> send(int group, Channel channel, int to, const void* data, std::size_t bytes,
                                std::shared_ptr<const void> owner) override;
  std::unique_ptr<Message> receive(int group, Channel channel, int from, void* data, std::size_t bytes,
                                   std::shared_ptr<const void> owner) override;

 private:
  class MpiMessage;
  int tag(int group, Channel channel) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int highest_tag_ = 32767;
  Options options_;
  // MPI may have been initialised for one calling thread at a time.
  std::mutex mutex_;
};

}  // namespace lockstep::comm
