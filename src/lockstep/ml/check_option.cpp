#include "lockstep/ml/check_option.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::ml {

void check_from_one_on(std::int64_t value, const char* name) {
  if (value < 1) fail(Fault::Usage, fmt::format("{} = {}: it is from 1 on", name, value));
}

void check_from_zero_on(double value, const char* name) {
  if (!(value >= 0)) fail(Fault::Usage, fmt::format("{} = {}: it is from 0 on", name, value));
  if (std::isinf(value)) fail(Fault::Usage, fmt::format("{} = {}: it is a finite number", name, value));
}

void check_one_of(const std::string& value, const char* name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return;
  fail(Fault::Usage, fmt::format("{} = '{}': it is one of {}", name, value, list_some(known, known.size())));
}

}  // namespace lockstep::ml
