#include "lockstep/data/tf_example_values.h"

#include <set>
#include <string>

#include <fmt/format.h>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tf_tensor.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;
using Kind = Feature::Kind;

// ---- reading ------------------------------------------------------------------------------------

[[noreturn]] void not_as_scanned(const Field& field) {
  fail(Fault::Data, fmt::format("the feature is not {}, as the scan found it: the file has changed", field.text()));
}

Bytes bytes_of_values(const Feature& feature, Scratch& scratch) {
  switch (feature.kind) {
    case Kind::Floats: return floats(feature, scratch);
    case Kind::Ints: return ints(feature, scratch);
    default: return byte_string(feature);
  }
}

Value decoded(const Example& example, const Field& field, Scratch& scratch) {
  const Feature* feature = example.find(field.name);
  if (feature == nullptr || feature->missing()) return {{}, {}, true};
  const bool list = feature->kind != Kind::ByteStrings;
  if (field.encoding != Encoding::Values) {
    if (list) not_as_scanned(field);
    return {byte_string(*feature), {}, false};
  }
  Value value{bytes_of_values(*feature, scratch), {}, false};
  if (list && field.shape.size() <= 1) {
    if (type_of_list(*feature) != field.type) not_as_scanned(field);
    if (!field.shape.empty()) value.shape = {feature->count};
    return value;
  }
  const auto tensor = tensor_field(example, *feature);
  if (!tensor || tensor->type != field.type) not_as_scanned(field);
  value.shape.assign(tensor->shape.begin(), tensor->shape.end());
  return value;
}

// ---- writing ------------------------------------------------------------------------------------

bool is_list(const Field& field) {
  return field.encoding == Encoding::Values && field.shape.size() <= 1 &&
         (field.type == ScalarType::Float || field.type == ScalarType::Long);
}

/// What a reader could take for a number, because each list may have one element.
bool could_be_number(const Field& field) {
  return field.shape.size() == 1 && (field.shape[0] == 1 || field.shape[0] == -1);
}

bool has_shape_beside(const Field& field) {
  return field.encoding == Encoding::Values && (!is_list(field) || could_be_number(field));
}

/// A reader would not know what to make of other bytes.
void check_size(const Field& field, const Value& value) {
  if (field.encoding != Encoding::Values) return;
  const auto wanted = bytes_of_shape(field.type, value.shape);
  if (wanted != value.bytes.size()) {
    fail(Fault::Data, fmt::format("'{}' has {} bytes, but its shape asks for {}", field.name, value.bytes.size(),
                                  wanted.value_or(0)));
  }
}

}  // namespace

void decode_example(const Example& example, const Schema& schema, Sample& sample) {
  for (std::size_t place = 0; place < schema.size(); ++place) {
    sample.values[place] = decoded(example, schema[place], sample.scratch);
  }
}

void check_writable(const Schema& schema) {
  std::set<std::string> taken;
  const auto take = [&](const std::string& name) {
    if (!taken.insert(name).second) {
      fail(Fault::Usage, fmt::format("a record would have two features '{}'; rename a field", name));
    }
  };
  for (const auto& field : schema) {
    take(field.name);
    if (!is_utf8(field.name)) fail(Fault::Usage, fmt::format("the name '{}' is not UTF-8; rename it", field.name));
    if (has_shape_beside(field)) take(shape_name(field.name));
    if (field.encoding == Encoding::Values && !is_list(field)) take(type_name(field.name));
  }
}

void encode_field(ExampleBuilder& builder, const Field& field, const Value& value) {
  if (value.missing) return;
  check_size(field, value);
  if (!is_list(field)) {
    builder.add_bytes(field.name, value.bytes);
  } else if (field.type == ScalarType::Float) {
    builder.add_floats(field.name, value.bytes);
  } else {
    builder.add_ints(field.name, value.bytes);
  }
  if (!has_shape_beside(field)) return;
  builder.add_ints(shape_name(field.name), std::as_bytes(std::span(value.shape.data(), value.shape.size())));
  if (!is_list(field)) builder.add_bytes(type_name(field.name), as_bytes(comm::name_of(field.type)));
}

}  // namespace lockstep::data
