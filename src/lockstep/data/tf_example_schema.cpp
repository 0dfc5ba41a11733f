#include "lockstep/data/tf_example_schema.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/utf8.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;
using Kind = Feature::Kind;

constexpr std::string_view kShape = "/shape";
constexpr std::string_view kType = "/dtype";
constexpr std::int64_t kMostDims = 64;

std::string beside(std::string_view name, std::string_view what) { return fmt::format("{}{}", name, what); }

Encoding encoding_of(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xD8\xFF")) return Encoding::Jpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return Encoding::Png;
  return is_utf8(bytes) ? Encoding::Text : Encoding::Raw;
}

Field plain_field(const Feature& feature) {
  const std::string name(feature.name);
  if (feature.kind == Kind::ByteStrings) return {name, encoding_of(as_text(byte_string(feature)))};
  const ScalarType type = feature.kind == Kind::Floats ? ScalarType::Float : ScalarType::Long;
  if (feature.count == 1) return {name, Encoding::Values, type, {}};
  return {name, Encoding::Values, type, {feature.count}};
}

// ---- shape and type that stand beside a feature -------------------------------------------------

std::optional<ScalarType> type_if_known(const std::string& name) {
  try {
    return type_named(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ScalarType> declared_type(const Example& example, const Feature& feature) {
  if (feature.kind == Kind::Floats) return ScalarType::Float;
  if (feature.kind == Kind::Ints) return ScalarType::Long;
  const Feature* type = example.find(beside(feature.name, kType));
  if (type == nullptr || type->kind != Kind::ByteStrings || type->count != 1) return std::nullopt;
  return type_if_known(std::string(as_text(byte_string(*type))));
}

/// The bytes of such values; nothing if no memory could hold them.
std::optional<std::uint64_t> bytes_of(ScalarType type, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = c10::elementSize(type);
  bool empty = false;
  for (const auto size : shape) {
    empty = empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (size < 0 || __builtin_mul_overflow(bytes, factor, &bytes) || bytes > INT64_MAX) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

std::uint64_t stored_bytes(const Feature& feature) {
  if (feature.kind == Kind::ByteStrings) return byte_string(feature).size();
  const std::size_t size = feature.kind == Kind::Floats ? sizeof(float) : sizeof(std::int64_t);
  return static_cast<std::uint64_t>(feature.count) * size;
}

/// The field that `feature` is by what stands beside it, if that fits its bytes.
std::optional<Field> declared_field(const Example& example, const Feature& feature) {
  const Feature* sizes = example.find(beside(feature.name, kShape));
  if (sizes == nullptr || sizes->kind != Kind::Ints || sizes->count > kMostDims) return std::nullopt;
  const auto type = declared_type(example, feature);
  if (!type || feature.missing()) return std::nullopt;
  Scratch scratch;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(sizes->count));
  const Bytes numbers = ints(*sizes, scratch);
  if (!shape.empty()) std::memcpy(shape.data(), numbers.data(), numbers.size());
  if (bytes_of(*type, shape) != stored_bytes(feature)) return std::nullopt;
  return Field{std::string(feature.name), Encoding::Values, *type, std::move(shape)};
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
  const auto name = shape.name.substr(0, shape.name.size() - kShape.size());
  const Feature* feature = example.find(name);
  if (feature == nullptr) return;
  const auto field = declared_field(example, *feature);
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
    if (feature.name.ends_with(kShape)) add_declared(example, feature);
  }
}

bool ExampleSchema::is_in(std::int64_t records, const std::string& name) const {
  const auto place = places_.find(name);
  return place != places_.end() && features_[place->second].records == records;
}

bool ExampleSchema::always_declared(const Seen& seen) const {
  const std::string& name = seen.plain.name;
  return seen.declarations == seen.records && is_in(seen.records, beside(name, kShape)) &&
         (seen.plain.encoding == Encoding::Values || is_in(seen.records, beside(name, kType)));
}

Schema ExampleSchema::schema() const {
  std::set<std::string> hidden;
  for (const auto& one : features_) {
    if (!always_declared(one)) continue;
    hidden.insert(beside(one.plain.name, kShape));
    if (one.plain.encoding != Encoding::Values) hidden.insert(beside(one.plain.name, kType));
  }
  Schema schema;
  for (const auto& one : features_) {
    if (!hidden.contains(one.plain.name)) schema.push_back(always_declared(one) ? one.declared : one.plain);
  }
  return schema;
}

namespace {

Value decoded(const Example& example, const Field& field, Scratch& scratch) {
  const Feature* feature = example.find(field.name);
  if (feature == nullptr || feature->missing()) return {{}, {}, true};
  const bool bytes = feature->kind == Kind::ByteStrings;
  if (field.encoding != Encoding::Values) return {byte_string(*feature), {}, false};
  Value value;
  value.bytes = bytes                           ? byte_string(*feature)
                : feature->kind == Kind::Floats ? floats(*feature, scratch)
                                                : ints(*feature, scratch);
  if (!bytes && field.shape.size() <= 1) {
    if (!field.shape.empty()) value.shape = {feature->count};
    return value;
  }
  const auto declared = declared_field(example, *feature);
  if (!declared) fail(Fault::Data, fmt::format("the shape of '{}' is not that of its bytes", field.name));
  value.shape.assign(declared->shape.begin(), declared->shape.end());
  return value;
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
    if (has_shape_beside(field)) take(beside(field.name, kShape));
    if (field.encoding == Encoding::Values && !is_list(field)) take(beside(field.name, kType));
  }
}

void encode_field(ExampleBuilder& builder, const Field& field, const Value& value) {
  if (value.missing) return;
  if (!is_list(field)) {
    builder.add_bytes(field.name, value.bytes);
  } else if (field.type == ScalarType::Float) {
    builder.add_floats(field.name, value.bytes);
  } else {
    builder.add_ints(field.name, value.bytes);
  }
  if (!has_shape_beside(field)) return;
  builder.add_ints(beside(field.name, kShape), std::as_bytes(std::span(value.shape.data(), value.shape.size())));
  if (!is_list(field)) builder.add_bytes(beside(field.name, kType), as_bytes(comm::name_of(field.type)));
}

}  // namespace lockstep::data
