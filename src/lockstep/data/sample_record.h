// lockstep/data/sample_record.h
//
// A sample with its fields in one piece of bytes, for stores of keys and values. It is
// a MessagePack map, so that other programs read it too:
//   {"lockstep": 1, "image": {"t": "uint8", "s": [28, 28], "d": bytes}, "label": …}
// "t" is a type or an encoding (then "s" is empty); the first record may have the classes
// of a field in "c". A field that a sample does not have is left out.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

struct RecordField {
  Field field;  // as this sample has it
  Bytes bytes;  // in the record
};

std::string record_of(const Schema& schema, const Sample& sample, bool with_classes);

bool is_record(Bytes bytes) noexcept;
/// Fault::Data with the byte where it is torn.
std::vector<RecordField> parse_record(Bytes bytes);

/// The schema that holds all records so far: what differs between shapes is -1, new fields come last.
/// Fault::Data if a field changes its type or its number of dims.
void widen(Schema& schema, const std::vector<RecordField>& record);

}  // namespace lockstep::data
