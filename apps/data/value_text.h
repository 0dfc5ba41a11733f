// apps/data/value_text.h
//
// A value as a person reads it: a few numbers, the begin of a text, the size of an image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::apps {

std::string value_text(const data::Field& field, const data::Value& value);
/// Its numbers as doubles; of Values only.
std::vector<double> numbers_of(const data::Field& field, const data::Value& value);
/// Integers in full: doubles are the same for 2^53 and 2^53 + 1. Those of uint64 are to be taken as such.
std::vector<std::int64_t> integers_of(const data::Field& field, const data::Value& value);
std::string integer_text(c10::ScalarType type, std::int64_t number);
/// One line that a terminal shows as it is.
std::string printable(std::string_view text, std::size_t most_characters = std::string_view::npos);

}  // namespace lockstep::apps
