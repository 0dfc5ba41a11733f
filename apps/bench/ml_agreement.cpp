#include "bench/ml_agreement.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::apps {
namespace {

/// False if one of them is no number.
bool near(double one, double other, double share) {
  return std::abs(one - other) <= share * std::max(std::abs(one), std::abs(other));
}

}  // namespace

void MlAgreement::check(const MlCase& one, std::int64_t rows, const Participant& participant,
                        const std::map<std::string, double>& values) {
  const auto& first = first_.try_emplace({one.name, rows}, Found{participant, values}).first->second;
  const bool both_ours = participant.who == kOurs && first.participant.who == kOurs;
  const double share = both_ours ? 0 : one.data.type == at::kFloat ? 1e-3 : 1e-6;
  for (const auto& [name, expected] : first.values) {
    const auto found = values.find(name);
    const double value = found == values.end() ? std::nan("") : found->second;
    if (near(value, expected, share)) continue;
    fail(Fault::Internal, fmt::format("{} of {} rows: {} has {} {}, {} has {}; their times do not compare", one.name,
                                      rows, label(first.participant), name, expected, label(participant), value));
  }
}

}  // namespace lockstep::apps
