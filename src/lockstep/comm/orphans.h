// lockstep/comm/orphans.h
//
// Processes that the ranks leave behind. A child of a rank may leave its group and
// session and outlive its parents; then it becomes a child of ours, where it can be
// found and ended. Children that we had before are not touched.
#pragma once

#include <sys/types.h>

#include <vector>

namespace lockstep::comm {

class Orphans {
 public:
  /// From now on orphans come to us.
  Orphans();
  /// Ends those that are left.
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  /// A child of our own, which somebody else reaps.
  void spare(pid_t child) { spared_.push_back(child); }
  /// Reaps those that have ended by themselves.
  void reap() const;
  /// Kills and reaps all, and what comes to us through that. Gives up on what a kill does not end
  /// within a second: it waits for a device, or is another user's.
  void end() const;

 private:
  struct Found {
    pid_t process;
    bool ended;
  };
  std::vector<Found> find() const;

  std::vector<pid_t> spared_;
  int were_ours_before_ = 0;
};

}  // namespace lockstep::comm
