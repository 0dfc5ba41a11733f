#if LOCKSTEP_HAS_ARROW
#include "lockstep/data/formats/parquet_arrays.h"

#include <array>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include <c10/util/Half.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/array_rows.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data::parquet_format {
namespace {

using c10::ScalarType;

const std::array kTypes = {
    std::pair{arrow::Type::UINT8, ScalarType::Byte},      std::pair{arrow::Type::INT8, ScalarType::Char},
    std::pair{arrow::Type::INT16, ScalarType::Short},     std::pair{arrow::Type::INT32, ScalarType::Int},
    std::pair{arrow::Type::INT64, ScalarType::Long},      std::pair{arrow::Type::UINT16, ScalarType::UInt16},
    std::pair{arrow::Type::UINT32, ScalarType::UInt32},   std::pair{arrow::Type::UINT64, ScalarType::UInt64},
    std::pair{arrow::Type::HALF_FLOAT, ScalarType::Half}, std::pair{arrow::Type::FLOAT, ScalarType::Float},
    std::pair{arrow::Type::DOUBLE, ScalarType::Double},   std::pair{arrow::Type::BOOL, ScalarType::Bool}};

std::optional<ScalarType> number_type(arrow::Type::type type) {
  for (const auto& [theirs, ours] : kTypes) {
    if (theirs == type) return ours;
  }
  return std::nullopt;
}

std::shared_ptr<arrow::DataType> arrow_type(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return arrow::uint8();
    case ScalarType::Char: return arrow::int8();
    case ScalarType::Short: return arrow::int16();
    case ScalarType::Int: return arrow::int32();
    case ScalarType::Long: return arrow::int64();
    case ScalarType::UInt16: return arrow::uint16();
    case ScalarType::UInt32: return arrow::uint32();
    case ScalarType::UInt64: return arrow::uint64();
    case ScalarType::Half: return arrow::float16();
    case ScalarType::Float: return arrow::float32();
    case ScalarType::Double: return arrow::float64();
    case ScalarType::Bool: return arrow::boolean();
    default: return nullptr;
  }
}

/// Calls with the array as what it is.
template <class Call>
void with_numbers(const arrow::Array& array, const Call& call) {
  switch (array.type_id()) {
    case arrow::Type::UINT8: return call(static_cast<const arrow::UInt8Array&>(array));
    case arrow::Type::INT8: return call(static_cast<const arrow::Int8Array&>(array));
    case arrow::Type::INT16: return call(static_cast<const arrow::Int16Array&>(array));
    case arrow::Type::INT32: return call(static_cast<const arrow::Int32Array&>(array));
    case arrow::Type::INT64: return call(static_cast<const arrow::Int64Array&>(array));
    case arrow::Type::UINT16: return call(static_cast<const arrow::UInt16Array&>(array));
    case arrow::Type::UINT32: return call(static_cast<const arrow::UInt32Array&>(array));
    case arrow::Type::UINT64: return call(static_cast<const arrow::UInt64Array&>(array));
    case arrow::Type::HALF_FLOAT: return call(static_cast<const arrow::HalfFloatArray&>(array));
    case arrow::Type::FLOAT: return call(static_cast<const arrow::FloatArray&>(array));
    case arrow::Type::DOUBLE: return call(static_cast<const arrow::DoubleArray&>(array));
    case arrow::Type::BOOL: return call(static_cast<const arrow::BooleanArray&>(array));
    default: fail(Fault::Data, fmt::format("{} are no numbers", array.type()->ToString()));
  }
}

template <class Array>
double number_at(const Array& array, std::int64_t i) {
  if constexpr (std::is_same_v<Array, arrow::HalfFloatArray>) {
    return static_cast<double>(c10::Half(array.Value(i), c10::Half::from_bits()));
  } else {
    return static_cast<double>(array.Value(i));
  }
}

void append_with_missing(const arrow::Array& array, std::string& into) {
  with_numbers(array, [&](const auto& numbers) {
    for (std::int64_t i = 0; i < numbers.length(); ++i) {
      const double number = numbers.IsNull(i) ? std::numeric_limits<double>::quiet_NaN() : number_at(numbers, i);
      into.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  });
}

void append_as_they_are(const arrow::Array& array, std::string& into) {
  with_numbers(array, [&](const auto& numbers) {
    using Array = std::decay_t<decltype(numbers)>;
    if constexpr (std::is_same_v<Array, arrow::BooleanArray>) {
      for (std::int64_t i = 0; i < numbers.length(); ++i) into += numbers.Value(i) ? '\1' : '\0';
    } else {
      const auto bytes = std::as_bytes(std::span(numbers.raw_values(), static_cast<std::size_t>(numbers.length())));
      into += as_text(bytes);
    }
  });
}

/// The elements of rows that are lists of one length.
std::shared_ptr<arrow::Array> elements_of(const arrow::FixedSizeListArray& lists) {
  const std::int64_t each = lists.list_type()->list_size();
  return lists.values()->Slice(lists.value_offset(0), lists.length() * each);
}

template <class Array>
void each_of(const Array& array, const std::function<void(std::optional<std::string_view>)>& each) {
  for (std::int64_t i = 0; i < array.length(); ++i) {
    each(array.IsNull(i) ? std::nullopt : std::optional<std::string_view>(array.GetView(i)));
  }
}

template <class Builder, class Number>
void append_all(arrow::ArrayBuilder& builder, Bytes bytes) {
  auto& numbers = static_cast<Builder&>(builder);
  for (std::size_t place = 0; place + sizeof(Number) <= bytes.size(); place += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + place, sizeof number);
    check(numbers.Append(number));
  }
}

void append_elements(ScalarType type, Bytes bytes, arrow::ArrayBuilder& into) {
  switch (type) {
    case ScalarType::Byte: return append_all<arrow::UInt8Builder, std::uint8_t>(into, bytes);
    case ScalarType::Char: return append_all<arrow::Int8Builder, std::int8_t>(into, bytes);
    case ScalarType::Short: return append_all<arrow::Int16Builder, std::int16_t>(into, bytes);
    case ScalarType::Int: return append_all<arrow::Int32Builder, std::int32_t>(into, bytes);
    case ScalarType::Long: return append_all<arrow::Int64Builder, std::int64_t>(into, bytes);
    case ScalarType::UInt16: return append_all<arrow::UInt16Builder, std::uint16_t>(into, bytes);
    case ScalarType::UInt32: return append_all<arrow::UInt32Builder, std::uint32_t>(into, bytes);
    case ScalarType::UInt64: return append_all<arrow::UInt64Builder, std::uint64_t>(into, bytes);
    case ScalarType::Half: return append_all<arrow::HalfFloatBuilder, std::uint16_t>(into, bytes);
    case ScalarType::Float: return append_all<arrow::FloatBuilder, float>(into, bytes);
    case ScalarType::Double: return append_all<arrow::DoubleBuilder, double>(into, bytes);
    case ScalarType::Bool: return append_all<arrow::BooleanBuilder, std::uint8_t>(into, bytes);
    default: fail(Fault::Internal, "Parquet has no such numbers");
  }
}

}  // namespace

void check(const arrow::Status& status) {
  if (!status.ok()) fail(status.IsIOError() ? Fault::Io : Fault::Data, fmt::format("Parquet: {}", status.message()));
}

Field field_of(const arrow::Field& column, bool some_missing) {
  const auto& type = *column.type();
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING: return {column.name(), Encoding::Text};
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY: return {column.name(), Encoding::Raw};
    default: break;
  }
  if (const auto number = number_type(type.id())) {
    return {column.name(), Encoding::Values, some_missing ? ScalarType::Double : *number};
  }
  if (type.id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
    if (const auto number = number_type(list.value_type()->id())) {
      return {column.name(), Encoding::Values, *number, {list.list_size()}};
    }
  }
  fail(Fault::Data,
       fmt::format("the column '{}' of {} is no field; choose others with --fields", column.name(), type.ToString()));
}

void append_numbers(const arrow::Array& array, const Field& field, std::string& into) {
  const bool lists = array.type_id() == arrow::Type::FIXED_SIZE_LIST;
  const auto elements = lists ? elements_of(static_cast<const arrow::FixedSizeListArray&>(array)) : nullptr;
  const arrow::Array& numbers = lists ? *elements : array;
  const bool as_they_are = numbers.null_count() == 0 && number_type(numbers.type_id()) == field.type;
  if (!lists && field.type == ScalarType::Double && !as_they_are) return append_with_missing(numbers, into);
  if (array.null_count() > 0 || numbers.null_count() > 0) {
    fail(Fault::Data, fmt::format("'{}' misses values within rows", field.name));
  }
  append_as_they_are(numbers, into);
}

void each_bytes(const arrow::Array& array, const std::function<void(std::optional<std::string_view>)>& each) {
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY: return each_of(static_cast<const arrow::BinaryArray&>(array), each);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY: return each_of(static_cast<const arrow::LargeBinaryArray&>(array), each);
    default: fail(Fault::Data, fmt::format("{} are no bytes", array.type()->ToString()));
  }
}

std::shared_ptr<arrow::Field> column_of(const Field& field) {
  if (field.encoding == Encoding::Text) return arrow::field(field.name, arrow::utf8());
  if (field.encoding != Encoding::Values) return arrow::field(field.name, arrow::binary());
  const auto type = arrow_type(field.type);
  // A list of no elements is written by Arrow, and then read by nobody.
  if (!type || !field.fixed() || field.elements() == 0 || field.elements() > INT32_MAX) {
    fail(Fault::Usage, fmt::format("Parquet cannot hold {}; use tar or tfrecord", field.text()));
  }
  if (field.shape.empty()) return arrow::field(field.name, type, false);
  return arrow::field(field.name, arrow::fixed_size_list(type, static_cast<std::int32_t>(field.elements())), false);
}

void append_value(const Field& field, const Value& value, arrow::ArrayBuilder& builder) {
  if (field.encoding != Encoding::Values) {
    auto& bytes = static_cast<arrow::BinaryBuilder&>(builder);
    return check(value.missing ? bytes.AppendNull() : bytes.Append(as_text(value.bytes)));
  }
  check_row(field, value);
  if (field.shape.empty()) return append_elements(field.type, value.bytes, builder);
  auto& lists = static_cast<arrow::FixedSizeListBuilder&>(builder);
  check(lists.Append());
  append_elements(field.type, value.bytes, *lists.value_builder());
}

}  // namespace lockstep::data::parquet_format
#endif
