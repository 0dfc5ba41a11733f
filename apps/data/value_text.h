// apps/data/value_text.h
//
// A value as a person reads it: a few numbers, the begin of a text, the size of an image.
#pragma once

#include <string>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::apps {

std::string value_text(const data::Field& field, const data::Value& value);
/// Its numbers as doubles; of Values only.
std::vector<double> numbers_of(const data::Field& field, const data::Value& value);

}  // namespace lockstep::apps
