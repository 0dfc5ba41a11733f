#include "lockstep/comm/environment.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm::environment {

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

bool speaks_for_host() {
  for (const char* name : {kLocalRank, "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           get("PMIX_RANK") ? "SLURM_LOCALID" : "SLURM_PROCID"}) {
    const auto place = get(name);
    if (!place) continue;
    if (*place == "0") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return false;
  }
  return true;
}

int get_int(const char* name, int fallback, int lowest, int highest) {
  const auto value = get(name);
  return value ? static_cast<int>(parse_integer(name, *value, lowest, highest)) : fallback;
}

double get_seconds(const char* name, double fallback) {
  const auto value = get(name);
  if (!value) return fallback;
  char* end = nullptr;
  const double seconds = std::strtod(value->c_str(), &end);
  if (*end != 0 || !(seconds >= 0)) fail(Fault::Usage, fmt::format("{}={} is not a number of seconds", name, *value));
  return seconds;
}

void check_choice(const char* name, const std::vector<std::string>& choices) {
  const auto value = get(name);
  if (!value || std::find(choices.begin(), choices.end(), *value) != choices.end()) return;
  fail(Fault::Usage, fmt::format("{}: unknown value '{}'{}", name, *value, proposal(*value, choices)));
}

}  // namespace lockstep::comm::environment
