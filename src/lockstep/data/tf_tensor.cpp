#include "lockstep/data/tf_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;
using Kind = Feature::Kind;

constexpr std::int64_t kMostDims = 64;

std::optional<ScalarType> type_if_known(const std::string& name) {
  try {
    return type_named(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<ScalarType> type_beside(const Example& example, const Feature& feature) {
  if (feature.kind != Kind::ByteStrings) return type_of_list(feature);
  const Feature* type = example.find(type_name(feature.name));
  if (type == nullptr || type->kind != Kind::ByteStrings || type->count != 1) return std::nullopt;
  return type_if_known(std::string(as_text(byte_string(*type))));
}

std::uint64_t stored_bytes(const Feature& feature) {
  if (feature.kind == Kind::ByteStrings) return byte_string(feature).size();
  return static_cast<std::uint64_t>(feature.count) * c10::elementSize(type_of_list(feature));
}

}  // namespace

std::string shape_name(std::string_view name) { return fmt::format("{}{}", name, kShapeEnding); }
std::string type_name(std::string_view name) { return fmt::format("{}/dtype", name); }

ScalarType type_of_list(const Feature& feature) noexcept {
  return feature.kind == Kind::Floats ? ScalarType::Float : ScalarType::Long;
}

std::optional<std::uint64_t> bytes_of_shape(ScalarType type, c10::ArrayRef<std::int64_t> shape) {
  std::uint64_t bytes = c10::elementSize(type);
  bool empty = false;
  for (const auto size : shape) {
    empty = empty || size == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (size < 0 || __builtin_mul_overflow(bytes, factor, &bytes) || bytes > INT64_MAX) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

std::optional<Field> tensor_field(const Example& example, const Feature& feature) {
  const Feature* sizes = example.find(shape_name(feature.name));
  if (feature.missing() || sizes == nullptr || sizes->kind != Kind::Ints || sizes->count > kMostDims) {
    return std::nullopt;
  }
  const auto type = type_beside(example, feature);
  if (!type) return std::nullopt;
  Scratch scratch;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(sizes->count));
  const Bytes numbers = ints(*sizes, scratch);
  if (!shape.empty()) std::memcpy(shape.data(), numbers.data(), numbers.size());
  if (bytes_of_shape(*type, shape) != stored_bytes(feature)) return std::nullopt;
  return Field{std::string(feature.name), Encoding::Values, *type, std::move(shape)};
}

}  // namespace lockstep::data
