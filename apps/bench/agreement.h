// apps/bench/agreement.h
//
// Whether all who did the same work found the same: a wrong result cannot win.
#pragma once

#include <map>
#include <string>

#include "bench/report.h"

namespace lockstep::apps {

class Agreement {
 public:
  /// By how much of a value participants may differ; two of ours may by `of_ours`.
  struct Share {
    double of_peers;
    double of_ours;
  };
  /// Fault::Internal if a value is further than that from what the first participant of this work found.
  void check(const std::string& work, const Participant& participant, const std::map<std::string, double>& values,
             const Share& share);

 private:
  struct Found {
    Participant participant;
    std::map<std::string, double> values;
  };
  std::map<std::string, Found> first_;
};

}  // namespace lockstep::apps
