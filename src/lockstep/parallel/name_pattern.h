// lockstep/parallel/name_pattern.h
//
// Parameters are chosen by patterns of their names, as files are in a shell: "*" is anything, "?" one character.
#pragma once

#include <string>
#include <vector>

namespace lockstep::parallel {

bool fits(const std::string& pattern, const std::string& name);
bool fits_any(const std::vector<std::string>& patterns, const std::string& name);

}  // namespace lockstep::parallel
