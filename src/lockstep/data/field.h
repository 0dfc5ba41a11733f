// lockstep/data/field.h
//
// A sample is a row of named fields; a Schema says which, and is the same for all
// samples of a data set. A field holds values (a tensor of one sample) or bytes that
// still have to be decoded: text, or an image as it lies in its file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>
#include <nlohmann/json_fwd.hpp>

namespace lockstep::data {

enum class Encoding : std::uint8_t { Values, Text, Raw, Jpeg, Png };
const char* name_of(Encoding encoding) noexcept;

struct Field {
  std::string name;
  Encoding encoding = Encoding::Values;
  c10::ScalarType type = c10::ScalarType::Byte;  // of Values
  std::vector<std::int64_t> shape = {};          // of Values, of one sample; -1: differs between samples
  std::vector<std::string> classes = {};         // what the integers stand for, if they are labels
  bool channels_first = false;  // an image that 'normalise' turned; no file keeps it, so it makes no field another

  /// Values of one known size.
  bool fixed() const noexcept;
  /// Of fixed() values.
  std::int64_t elements() const noexcept;
  std::int64_t bytes() const noexcept;
  /// "image: uint8[28, 28]", "jpg: jpeg"
  std::string text() const;
  bool operator==(const Field& other) const noexcept;
};

using Schema = std::vector<Field>;

/// The place of the field called `name`; an Error that proposes the nearest if there is none.
std::size_t place_of(const Schema& schema, const std::string& name);

/// Of "float32", …; Fault::Data if a field cannot be of such a type.
c10::ScalarType type_named(const std::string& name);

nlohmann::json to_json(const Schema& schema);
/// Fault::Data on anything to_json would not write.
Schema schema_from_json(const nlohmann::json& json);

}  // namespace lockstep::data
