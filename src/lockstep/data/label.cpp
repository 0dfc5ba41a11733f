#include "lockstep/data/label.h"

#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

template <class Number>
Number read(const Value& value) {
  Number number;
  std::memcpy(&number, value.bytes.data(), sizeof number);
  return number;
}

std::int64_t whole(const Field& field, double number) {
  if (!(std::abs(number) < 0x1p53) || number != std::floor(number)) {
    fail(Fault::Data, fmt::format("the label '{}' is {}, not a whole number", field.name, number));
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace

void check_label(const Field& field) {
  if (!field.fixed() || field.elements() != 1) {
    fail(Fault::Usage, fmt::format("{} is no label: one number per sample", field.text()));
  }
}

std::int64_t label_of(const Field& field, const Value& value) {
  if (value.missing || value.bytes.size() != c10::elementSize(field.type)) {
    fail(Fault::Data, fmt::format("the label '{}' is missing", field.name));
  }
  switch (field.type) {
    case c10::ScalarType::Byte: return read<std::uint8_t>(value);
    case c10::ScalarType::Char: return read<std::int8_t>(value);
    case c10::ScalarType::Short: return read<std::int16_t>(value);
    case c10::ScalarType::UInt16: return read<std::uint16_t>(value);
    case c10::ScalarType::Int: return read<std::int32_t>(value);
    case c10::ScalarType::UInt32: return read<std::uint32_t>(value);
    case c10::ScalarType::Long: return read<std::int64_t>(value);
    case c10::ScalarType::Bool: return read<std::uint8_t>(value);
    case c10::ScalarType::Float: return whole(field, read<float>(value));
    case c10::ScalarType::Double: return whole(field, read<double>(value));
    default: fail(Fault::Usage, fmt::format("{} cannot be a label", field.text()));
  }
}

}  // namespace lockstep::data
