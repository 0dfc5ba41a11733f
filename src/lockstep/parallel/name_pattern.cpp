#include "lockstep/parallel/name_pattern.h"

#include <fnmatch.h>

#include <algorithm>

namespace lockstep::parallel {

bool fits(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool fits_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) { return fits(pattern, name); });
}

}  // namespace lockstep::parallel
