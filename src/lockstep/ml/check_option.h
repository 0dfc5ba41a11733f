// lockstep/ml/check_option.h
//
// Parameters of estimators: Fault::Usage, naming the parameter and its value, unless it makes sense.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::ml {

void check_from_one_on(std::int64_t value, const char* name);
/// NaN is not, either.
void check_from_zero_on(double value, const char* name);
void check_one_of(const std::string& value, const char* name, const std::vector<std::string>& known);

}  // namespace lockstep::ml
