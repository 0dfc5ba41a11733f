// lockstep/data/label.h
//
// A class number, whatever number type it was stored in.
#pragma once

#include <cstdint>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

/// Fault::Usage unless the field is one number per sample.
void check_label(const Field& field);
/// Fault::Data if it is missing, NaN or no whole number.
std::int64_t label_of(const Field& field, const Value& value);

}  // namespace lockstep::data
