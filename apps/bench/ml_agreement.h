// apps/bench/ml_agreement.h
//
// Whether all who fitted the same rows found the same: a wrong result cannot win.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "bench/agreement.h"
#include "bench/ml_case.h"
#include "bench/report.h"

namespace lockstep::apps {

class MlAgreement {
 public:
  /// Of the case on so many rows. Fault::Internal if a value is far from what the first participant found: by 1e-6 of
  /// it, of float32 by 1e-3; if both are ours, by a single bit.
  void check(const MlCase& one, std::int64_t rows, const Participant& participant,
             const std::map<std::string, double>& values);

 private:
  Agreement agreement_;
};

}  // namespace lockstep::apps
