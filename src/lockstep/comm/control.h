// lockstep/comm/control.h
//
// The channel between hosts that tells soon when one is gone: MPI alone does not.
// One process per host, its leader, holds a TCP connection to the leader of the
// first host. Heartbeats carry what each rank is doing; an abort on any host reaches
// all; a host that falls silent, or whose connection breaks before it said good-bye,
// becomes the first cause on all others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/control_board.h"
#include "lockstep/comm/control_protocol.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/handle.h"

namespace lockstep::comm {

struct ControlHost {
  std::string name;
  std::vector<int> world_ranks;
};

class ControlChannel {
 public:
  struct Options {
    std::shared_ptr<Segment> segment;
    std::shared_ptr<ControlBoard> board;  // where it writes what it learns
    std::vector<ControlHost> hosts;
    int host = 0;  // this one
    double beat_s = 0.5;
    double lost_after_s = 5;
  };

  /// Where the first host listens: addresses, port and a secret that callers must know.
  class Listener {
   public:
    Listener();
    const std::string& invitation() const noexcept { return invitation_; }

   private:
    friend class ControlChannel;
    struct None {};
    explicit Listener(None) {}
    FileDescriptor socket_;
    std::uint64_t secret_ = 0;
    std::string invitation_;
  };

  /// On the first host: waits for nobody; hosts may connect later.
  ControlChannel(Options options, Listener listener);
  /// On the others: connects and waits to be welcomed, or fails saying which addresses were tried.
  ControlChannel(Options options, const std::string& invitation);
  /// Says good-bye, so that the others do not miss this host.
  ~ControlChannel();

 private:
  struct Peer {
    FileDescriptor socket;
    int host = -1;
    bool left = false;
    std::int64_t heard_ns = 0;
    control::FrameReader received;
    std::string unsent;
  };

  bool call(Peer& server, const std::string& address, int port, const control::Frame& hello);
  void start();
  void run();
  void accept_callers();
  void read(Peer& peer);
  void handle(Peer& peer, const control::Frame& frame);
  void send(Peer& peer, const control::Frame& frame);
  void flush(Peer& peer);
  void beat();
  void forward_abort();
  void lose(Peer& peer, const std::string& how);
  void learn(const std::string& statuses);
  std::vector<control::RankStatus> local_statuses() const;
  std::vector<control::RankStatus> all_statuses() const;

  Options options_;
  Listener listener_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool abort_forwarded_ = false;
  std::int64_t next_beat_ns_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace lockstep::comm
