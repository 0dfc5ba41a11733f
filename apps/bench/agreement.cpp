#include "bench/agreement.h"

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

void Agreement::check(const std::string& work, const Participant& participant,
                      const std::map<std::string, double>& values, const Share& share) {
  const auto& first = first_.try_emplace(work, Found{participant, values}).first->second;
  const bool both_ours = participant.who == kOurs && first.participant.who == kOurs;
  for (const auto& [name, expected] : first.values) {
    const auto found = values.find(name);
    const double value = found == values.end() ? std::nan("") : found->second;
    if (near(value, expected, both_ours ? share.of_ours : share.of_peers)) continue;
    fail(Fault::Internal, fmt::format("{}: {} has {} {}, {} has {}; their times do not compare", work,
                                      label(first.participant), name, expected, label(participant), value));
  }
}

}  // namespace lockstep::apps
