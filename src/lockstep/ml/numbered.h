// lockstep/ml/numbered.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace lockstep::ml {

/// Names of outputs: "pc1", "pc2", …
inline std::vector<std::string> numbered(const char* name, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= count; ++i) names.push_back(fmt::format("{}{}", name, i));
  return names;
}

}  // namespace lockstep::ml
