#include "lockstep/comm/environment.h"

#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm::environment {

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
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

}  // namespace lockstep::comm::environment
