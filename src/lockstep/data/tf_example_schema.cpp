#include "lockstep/data/tf_example_schema.h"

#include <set>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tf_tensor.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

using Kind = Feature::Kind;

Encoding encoding_of(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xD8\xFF")) return Encoding::Jpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return Encoding::Png;
  return is_utf8(bytes) ? Encoding::Text : Encoding::Raw;
}

Field plain_field(const Feature& feature) {
  const std::string name(feature.name);
  if (feature.kind == Kind::ByteStrings) return {name, encoding_of(as_text(byte_string(feature)))};
  const auto type = type_of_list(feature);
  if (feature.count == 1) return {name, Encoding::Values, type, {}};
  return {name, Encoding::Values, type, {feature.count}};
}

std::vector<std::int64_t> joined_shape(const Field& one, const Field& other) {
  if (one.shape == other.shape) return one.shape;
  // A list of one element is taken for a number until another record has more.
  if (one.shape.size() <= 1 && other.shape.size() <= 1) return {-1};
  if (one.shape.size() != other.shape.size()) {
    fail(Fault::Data,
         fmt::format("a feature has different dims in different records: {} and {}", one.text(), other.text()));
  }
  auto shape = one.shape;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] != other.shape[dim]) shape[dim] = -1;
  }
  return shape;
}

}  // namespace

Field joined(const Field& one, const Field& other) {
  if (one == other) return one;
  const bool values = one.encoding == Encoding::Values;
  if (values != (other.encoding == Encoding::Values) || (values && one.type != other.type)) {
    fail(Fault::Data, fmt::format("a feature differs between records: {} and {}", one.text(), other.text()));
  }
  Field field = one;
  if (values) field.shape = joined_shape(one, other);
  if (one.encoding != other.encoding) field.encoding = Encoding::Raw;
  return field;
}

ExampleSchema::Seen& ExampleSchema::seen(std::string_view name, std::size_t likely) {
  // Most records have the same features in the same order.
  if (likely < features_.size() && features_[likely].plain.name == name) return features_[likely];
  const auto place = places_.find(name);
  if (place != places_.end()) return features_[place->second];
  places_.emplace(name, features_.size());
  return features_.emplace_back();
}

void ExampleSchema::add_plain(Seen& seen, const Feature& feature) {
  if (feature.kind == Kind::ByteStrings && feature.count > 1) {
    fail(Fault::Data, fmt::format("the feature '{}' holds {} byte strings, but a field is one: split it into features",
                                  feature.name, feature.count));
  }
  const bool as_before =
      feature.kind == seen.kind &&
      (feature.kind == Kind::ByteStrings ? encoding_of(as_text(byte_string(feature))) == seen.plain.encoding
                                         : feature.count == seen.count);
  if (seen.records == 0) {
    seen.plain = plain_field(feature);
  } else if (!as_before) {
    seen.plain = joined(seen.plain, plain_field(feature));
  }
  seen.kind = feature.kind;
  seen.count = feature.count;
  ++seen.records;
}

void ExampleSchema::add_declared(const Example& example, const Feature& shape) {
  const auto name = shape.name.substr(0, shape.name.size() - kShapeEnding.size());
  const Feature* feature = example.find(name);
  if (feature == nullptr) return;
  const auto field = tensor_field(example, *feature);
  if (!field) return;
  Seen& one = features_[places_.find(name)->second];
  if (one.declarations == 0) {
    one.declared = *field;
  } else if (one.declared.type != field->type || one.declared.shape.size() != field->shape.size()) {
    return;
  } else {
    one.declared = joined(one.declared, *field);
  }
  ++one.declarations;
}

void ExampleSchema::add(const Example& example) {
  const auto features = example.features();
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (!features[i].missing()) add_plain(seen(features[i].name, i), features[i]);
  }
  for (const auto& feature : features) {
    if (feature.name.ends_with(kShapeEnding)) add_declared(example, feature);
  }
}

bool ExampleSchema::is_in(std::int64_t records, const std::string& name) const {
  const auto place = places_.find(name);
  return place != places_.end() && features_[place->second].records == records;
}

bool ExampleSchema::always_declared(const Seen& seen) const {
  const std::string& name = seen.plain.name;
  return seen.declarations == seen.records && is_in(seen.records, shape_name(name)) &&
         (seen.plain.encoding == Encoding::Values || is_in(seen.records, type_name(name)));
}

Schema ExampleSchema::schema() const {
  std::set<std::string> hidden;
  for (const auto& one : features_) {
    if (!always_declared(one)) continue;
    hidden.insert(shape_name(one.plain.name));
    if (one.plain.encoding != Encoding::Values) hidden.insert(type_name(one.plain.name));
  }
  Schema schema;
  for (const auto& one : features_) {
    if (!hidden.contains(one.plain.name)) schema.push_back(always_declared(one) ? one.declared : one.plain);
  }
  return schema;
}

}  // namespace lockstep::data
