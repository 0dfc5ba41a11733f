#include "lockstep/data/field.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

constexpr std::array kTypes = {ScalarType::Byte, ScalarType::Char,   ScalarType::Short,  ScalarType::Int,
                               ScalarType::Long, ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64,
                               ScalarType::Half, ScalarType::Float,  ScalarType::Double, ScalarType::BFloat16,
                               ScalarType::Bool};
constexpr std::array kEncodings = {"values", "text", "raw", "jpeg", "png"};
constexpr std::size_t kMostDims = 64;

}  // namespace

const char* name_of(Encoding encoding) noexcept { return kEncodings[static_cast<std::size_t>(encoding)]; }

ScalarType type_named(const std::string& name) {
  std::vector<std::string> names;
  for (const auto type : kTypes) {
    if (comm::name_of(type) == name) return type;
    names.emplace_back(comm::name_of(type));
  }
  fail(Fault::Data, fmt::format("unknown type '{}'{}", name, proposal(name, names)));
}

bool Field::fixed() const noexcept {
  return encoding == Encoding::Values && std::find(shape.begin(), shape.end(), -1) == shape.end();
}

std::int64_t Field::elements() const noexcept {
  std::int64_t product = 1;
  for (const auto size : shape) product *= size;
  return product;
}

std::int64_t Field::bytes() const noexcept { return elements() * static_cast<std::int64_t>(c10::elementSize(type)); }

std::string Field::text() const {
  if (encoding != Encoding::Values) return fmt::format("{}: {}", name, name_of(encoding));
  std::vector<std::string> sizes;
  for (const auto size : shape) sizes.push_back(size < 0 ? std::string("?") : std::to_string(size));
  if (shape.empty()) return fmt::format("{}: {}", name, comm::name_of(type));
  return fmt::format("{}: {}[{}]", name, comm::name_of(type), join(sizes, ", "));
}

bool Field::operator==(const Field& other) const noexcept {
  return name == other.name && encoding == other.encoding && type == other.type && shape == other.shape &&
         classes == other.classes;
}

std::size_t place_of(const Schema& schema, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t place = 0; place < schema.size(); ++place) {
    if (schema[place].name == name) return place;
    names.push_back(schema[place].name);
  }
  fail(Fault::Usage, fmt::format("there is no field '{}'{}", name, proposal(name, names)));
}

nlohmann::json to_json(const Schema& schema) {
  auto fields = nlohmann::json::array();
  for (const auto& field : schema) {
    nlohmann::json one = {{"name", field.name}, {"encoding", name_of(field.encoding)}};
    if (field.encoding == Encoding::Values) {
      one["type"] = comm::name_of(field.type);
      one["shape"] = field.shape;
    }
    if (!field.classes.empty()) one["classes"] = field.classes;
    fields.push_back(std::move(one));
  }
  return fields;
}

Schema schema_from_json(const nlohmann::json& json) {
  Schema schema;
  try {
    for (const auto& one : json) {
      Field field;
      field.name = one.at("name");
      const std::string encoding = one.at("encoding");
      const auto* known = std::find(kEncodings.begin(), kEncodings.end(), encoding);
      if (known == kEncodings.end()) fail(Fault::Data, fmt::format("unknown encoding '{}'", encoding));
      field.encoding = static_cast<Encoding>(known - kEncodings.begin());
      if (field.encoding == Encoding::Values) {
        field.type = type_named(one.at("type"));
        field.shape = one.at("shape").get<std::vector<std::int64_t>>();
      }
      if (one.contains("classes")) field.classes = one["classes"].get<std::vector<std::string>>();
      std::int64_t bytes = 16;  // of the largest element
      for (const auto size : field.shape) {
        if (size < -1 || (size > 0 && __builtin_mul_overflow(bytes, size, &bytes))) {
          fail(Fault::Data, fmt::format("field '{}' has no possible shape", field.name));
        }
      }
      if (field.shape.size() > kMostDims)
        fail(Fault::Data, fmt::format("field '{}' has {} dims", field.name, field.shape.size()));
      schema.push_back(std::move(field));
    }
  } catch (const nlohmann::json::exception&) {
    fail(Fault::Data, "the schema cannot be read");
  }
  return schema;
}

}  // namespace lockstep::data
