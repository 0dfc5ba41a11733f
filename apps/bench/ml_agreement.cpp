#include "bench/ml_agreement.h"

#include <fmt/format.h>

namespace lockstep::apps {

void MlAgreement::check(const MlCase& one, std::int64_t rows, const Participant& participant,
                        const std::map<std::string, double>& values) {
  agreement_.check(fmt::format("{} of {} rows", one.name, rows), participant, values,
                   {.of_peers = one.data.type == at::kFloat ? 1e-3 : 1e-6, .of_ours = 0});
}

}  // namespace lockstep::apps
