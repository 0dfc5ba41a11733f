// lockstep/parallel/checked_number.h
//
// Numbers of a recipe that make sense within limits only. Outside them: Fault::Usage, with key, value and limits.
#pragma once

#include <string>

#include "lockstep/core/config.h"

namespace lockstep::parallel {

/// From 0 on, and finite.
double not_negative(const Config& recipe, const std::string& key, double fallback);
/// Above 0, and finite.
double positive(const Config& recipe, const std::string& key, double fallback);
/// From 0 to 1.
double share(const Config& recipe, const std::string& key, double fallback);
/// From 0 to below 1.
double share_below_one(const Config& recipe, const std::string& key, double fallback);

}  // namespace lockstep::parallel
