#include "lockstep/parallel/checked_number.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {
namespace {

double within(bool fits, const std::string& key, double value, const char* limits) {
  if (!fits) fail(Fault::Usage, fmt::format("{} = {}: it is {}", key, value, limits));
  return value;
}

}  // namespace

double not_negative(const Config& recipe, const std::string& key, double fallback) {
  const double value = recipe.get(key, fallback);
  return within(value >= 0 && std::isfinite(value), key, value, "a number from 0 on");
}

double positive(const Config& recipe, const std::string& key, double fallback) {
  const double value = recipe.get(key, fallback);
  return within(value > 0 && std::isfinite(value), key, value, "a number above 0");
}

double share(const Config& recipe, const std::string& key, double fallback) {
  const double value = recipe.get(key, fallback);
  return within(value >= 0 && value <= 1, key, value, "a share from 0 to 1");
}

double share_below_one(const Config& recipe, const std::string& key, double fallback) {
  const double value = recipe.get(key, fallback);
  return within(value >= 0 && value < 1, key, value, "a share from 0 to below 1");
}

}  // namespace lockstep::parallel
