// lockstep/comm/control_board.h
//
// What the control channel of a host has learned about the ranks of the other hosts, in
// memory that all ranks of the host map: the leader writes, and every rank can say who is
// missing. Any thread may call. Texts may be torn while they change: they are for people.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/comm/control_protocol.h"
#include "lockstep/comm/hier_group.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {

class ControlBoard final : public RemoteStatus {
 public:
  /// A new board for a world of `ranks`. It has no name: nothing can be left behind.
  static std::shared_ptr<ControlBoard> create(int ranks);
  /// The board behind a descriptor() of the leader's.
  static std::shared_ptr<ControlBoard> attach(FileDescriptor file, int ranks);
  ~ControlBoard() override;
  ControlBoard(const ControlBoard&) = delete;
  ControlBoard& operator=(const ControlBoard&) = delete;

  int descriptor() const noexcept { return file_.get(); }

  // For the leader.
  /// News that are `stale_after_s` old are news of a silence.
  void beat(double stale_after_s) noexcept;
  void learn(const control::RankStatus& status) noexcept;

  /// What is known of `rank` as of now; nothing if it was never told, or if the leader, who
  /// would tell, is silent itself.
  std::optional<control::RankStatus> status(int rank) const;
  std::string elsewhere(int world_rank) const override;

 private:
  struct Entry {
    std::atomic<std::int64_t> learned_ns;  // 0: never
    std::atomic<std::uint32_t> waits;
    StatusText<256> place;
  };
  struct Header {
    std::atomic<std::int64_t> beat_ns;  // when the leader's channel last ran, CLOCK_MONOTONIC
    std::atomic<std::int64_t> stale_after_ns;
  };

  ControlBoard(FileDescriptor file, int ranks);

  FileDescriptor file_;
  int ranks_;
  std::size_t bytes_;
  void* memory_;
  Header* header_;
  Entry* entries_;
};

}  // namespace lockstep::comm
