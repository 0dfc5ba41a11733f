// lockstep/core/arguments.h
//
// What exec() and its relatives take: pointers to C strings, a null behind the last.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Good as long as `texts` is.
inline std::vector<char*> arguments_of(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace lockstep
