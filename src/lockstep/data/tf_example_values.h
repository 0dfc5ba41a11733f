// lockstep/data/tf_example_values.h
//
// The values of a sample from an Example, and an Example from them.
#pragma once

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"
#include "lockstep/data/tf_example.h"

namespace lockstep::data {

/// A value for every field of `schema`; a feature that is not there is missing.
void decode_example(const Example& example, const Schema& schema, Sample& sample);

/// Fault::Usage if a name would be taken twice.
void check_writable(const Schema& schema);
/// Such that decode_example gives the same value.
void encode_field(ExampleBuilder& builder, const Field& field, const Value& value);

}  // namespace lockstep::data
