// apps/interrupt.h
//
// Lets a job that is interrupted remove what it left half done: while one of these
// lives, SIGINT, SIGTERM and SIGHUP are noted, and the work ends at its next check().
// One at a time; a second signal of the same kind ends the process at once.
#pragma once

#include <signal.h>

#include <array>
#include <functional>

namespace lockstep::apps {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  /// Throws what until_interrupted() catches if a signal came. From any thread.
  void check() const;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> before_{};
};

/// Does `work`. Interrupted, it unwinds, and then the process ends by the signal as if nobody had caught it.
void until_interrupted(const std::function<void(const Interrupt& interrupt)>& work);

}  // namespace lockstep::apps
