// lockstep/ml/category_text.h
//
// The text by which a value of an encoded field is known in a model: of a number the same
// whatever its type, so that 3 of one file is 3.0 of another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::ml {

/// A text as it is, a number with the fewest digits and without a point where it is whole; none if it is missing, as
/// NaN is, too. It lies in the value or in `scratch`.
std::optional<std::string_view> category_text(const data::Field& field, const data::Value& value, std::string& scratch);

/// The same of a number that is written in another way, such as 3.0; other texts stay.
std::string category_text_of(std::string number);

/// Numbers by value, behind what is none.
void sort_by_value(std::vector<std::string>& numbers);

}  // namespace lockstep::ml
