#include "lockstep/data/sample_record.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/comm/types.h"
#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kMagic = "lockstep";
constexpr std::size_t kMostDims = 64;
constexpr std::array kEncodings = {Encoding::Text, Encoding::Raw, Encoding::Jpeg, Encoding::Png};

// MessagePack's marks; those with a size in them are followed by it, big-endian.
constexpr int kFixMap = 0x80, kFixArray = 0x90, kFixText = 0xA0;
constexpr int kBin8 = 0xC4, kBin16 = 0xC5, kBin32 = 0xC6;
constexpr int kUint8 = 0xCC, kUint16 = 0xCD, kUint32 = 0xCE, kUint64 = 0xCF;
constexpr int kText8 = 0xD9, kText16 = 0xDA, kText32 = 0xDB;
constexpr int kArray16 = 0xDC, kArray32 = 0xDD, kMap16 = 0xDE, kMap32 = 0xDF;

// ---- writing --------------------------------------------------------------------------------------

void append_big_endian(std::string& into, std::uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) into += static_cast<char>(number >> shift & 0xFF);
}

/// The smallest of the marks for sizes of 1, 2 and 4 bytes; 0: there is none.
void append_size(std::string& into, std::uint64_t size, int mark8, int mark16, int mark32) {
  if (size > UINT32_MAX) fail(Fault::Data, fmt::format("a record cannot hold a value of {} bytes", size));
  const int bytes = mark8 != 0 && size <= UINT8_MAX ? 1 : size <= UINT16_MAX ? 2 : 4;
  into += static_cast<char>(bytes == 1 ? mark8 : bytes == 2 ? mark16 : mark32);
  append_big_endian(into, size, bytes);
}

void append_text(std::string& into, std::string_view text) {
  append_size(into, text.size(), kText8, kText16, kText32);
  into += text;
}

void append_classes(std::string& into, const std::vector<std::string>& classes) {
  append_text(into, "c");
  append_size(into, classes.size(), 0, kArray16, kArray32);
  for (const auto& name : classes) append_text(into, name);
}

void append_field(std::string& into, const Field& field, const Value& value, bool with_classes) {
  const bool values = field.encoding == Encoding::Values;
  append_text(into, field.name);
  into += static_cast<char>(kFixMap | (with_classes ? 4 : 3));
  append_text(into, "t");
  append_text(into, values ? comm::name_of(field.type) : name_of(field.encoding));
  append_text(into, "s");
  append_size(into, values ? value.shape.size() : 0, 0, kArray16, kArray32);
  for (std::size_t dim = 0; values && dim < value.shape.size(); ++dim) {
    into += static_cast<char>(kUint64);
    append_big_endian(into, static_cast<std::uint64_t>(value.shape[dim]), 8);
  }
  if (with_classes) append_classes(into, field.classes);
  append_text(into, "d");
  append_size(into, value.bytes.size(), kBin8, kBin16, kBin32);
  into += as_text(value.bytes);
}

// ---- reading --------------------------------------------------------------------------------------

/// What a record consists of and no more, so that no bytes lead into the depth.
class Parser {
 public:
  explicit Parser(Bytes bytes) : bytes_(bytes) {}

  std::uint64_t map() {
    const int mark = byte();
    if ((mark & 0xF0) == kFixMap) return static_cast<std::uint64_t>(mark & 0x0F);
    return sized(mark, {kMap16, kMap32}, 2, "a map");
  }
  std::uint64_t array() {
    const int mark = byte();
    if ((mark & 0xF0) == kFixArray) return static_cast<std::uint64_t>(mark & 0x0F);
    return sized(mark, {kArray16, kArray32}, 2, "an array");
  }
  std::string_view text() {
    const int mark = byte();
    if ((mark & 0xE0) == kFixText) return as_text(take(static_cast<std::uint64_t>(mark & 0x1F)));
    return as_text(take(sized(mark, {kText8, kText16, kText32}, 1, "a text")));
  }
  Bytes bytes() { return take(sized(byte(), {kBin8, kBin16, kBin32}, 1, "bytes")); }
  std::uint64_t number() {
    const int mark = byte();
    if (mark < 0x80) return static_cast<std::uint64_t>(mark);
    return sized(mark, {kUint8, kUint16, kUint32, kUint64}, 1, "a number");
  }
  bool done() const noexcept { return place_ == bytes_.size(); }
  [[noreturn]] void torn(std::string_view why) const {
    fail(Fault::Data, fmt::format("the record is torn at its byte {} of {}: {}", place_, bytes_.size(), why));
  }

 private:
  int byte() { return std::to_integer<int>(take(1)[0]); }
  Bytes take(std::uint64_t count) {
    if (count > bytes_.size() - place_) torn(fmt::format("{} more bytes are wanted", count));
    const Bytes part = bytes_.subspan(place_, count);
    place_ += count;
    return part;
  }
  /// The number behind `mark`, which is one of `marks`: the first is followed by `first` bytes, the next by twice as
  /// many.
  std::uint64_t sized(int mark, std::initializer_list<int> marks, std::uint64_t first, std::string_view what) {
    for (const int known : marks) {
      if (known == mark) {
        std::uint64_t number = 0;
        for (const auto part : take(first)) number = number << 8 | std::to_integer<std::uint64_t>(part);
        return number;
      }
      first *= 2;
    }
    torn(fmt::format("{:#04x} does not begin {}", mark, what));
  }

  Bytes bytes_;
  std::uint64_t place_ = 0;
};

void set_type(Field& field, std::string_view type) {
  const auto* known =
      std::find_if(kEncodings.begin(), kEncodings.end(), [&](Encoding encoding) { return type == name_of(encoding); });
  if (known != kEncodings.end()) {
    field.encoding = *known;
  } else {
    field.type = type_named(std::string(type));
  }
}

std::vector<std::int64_t> parse_shape(Parser& parser) {
  const std::uint64_t dims = parser.array();
  if (dims > kMostDims) parser.torn(fmt::format("{} dims", dims));
  std::vector<std::int64_t> shape;
  for (std::uint64_t dim = 0; dim < dims; ++dim) {
    const std::uint64_t size = parser.number();
    if (size > INT64_MAX) parser.torn(fmt::format("a dim of {}", size));
    shape.push_back(static_cast<std::int64_t>(size));
  }
  return shape;
}

void check_bytes(const Parser& parser, const RecordField& one) {
  if (one.field.encoding != Encoding::Values) return;
  std::uint64_t wanted = c10::elementSize(one.field.type);
  bool possible = true;
  for (const auto size : one.field.shape) {
    possible = possible && !__builtin_mul_overflow(wanted, static_cast<std::uint64_t>(size), &wanted);
  }
  if (!possible || wanted != one.bytes.size()) {
    parser.torn(fmt::format("{} does not have {} bytes", one.field.text(), one.bytes.size()));
  }
}

RecordField parse_field(Parser& parser, std::string_view name) {
  RecordField one;
  one.field.name = name;
  for (std::uint64_t left = parser.map(); left > 0; --left) {
    const std::string_view key = parser.text();
    if (key == "t") {
      set_type(one.field, parser.text());
    } else if (key == "s") {
      one.field.shape = parse_shape(parser);
    } else if (key == "d") {
      one.bytes = parser.bytes();
    } else if (key == "c") {
      for (std::uint64_t classes = parser.array(); classes > 0; --classes)
        one.field.classes.emplace_back(parser.text());
    } else {
      parser.torn(fmt::format("a field has no '{}'", key));
    }
  }
  check_bytes(parser, one);
  return one;
}

}  // namespace

std::string record_of(const Schema& schema, const Sample& sample, bool with_classes) {
  std::uint64_t count = 1;
  for (std::size_t place = 0; place < schema.size(); ++place) count += sample.values.at(place).missing ? 0 : 1;
  std::string record;
  append_size(record, count, 0, kMap16, kMap32);
  append_text(record, kMagic);
  record += '\1';
  for (std::size_t place = 0; place < schema.size(); ++place) {
    const Field& field = schema[place];
    if (sample.values[place].missing) continue;
    append_field(record, field, sample.values[place], with_classes && !field.classes.empty());
  }
  return record;
}

bool is_record(Bytes bytes) noexcept {
  try {
    Parser parser(bytes);
    return parser.map() > 0 && parser.text() == kMagic && parser.number() == 1;
  } catch (const Error&) {
    return false;
  }
}

std::vector<RecordField> parse_record(Bytes bytes) {
  Parser parser(bytes);
  std::uint64_t left = parser.map();
  if (left == 0 || parser.text() != kMagic || parser.number() != 1) parser.torn("it does not begin like one");
  std::vector<RecordField> record;
  for (--left; left > 0; --left) {
    const std::string_view name = parser.text();
    record.push_back(parse_field(parser, name));
  }
  if (!parser.done()) parser.torn("bytes are left");
  return record;
}

void widen(Schema& schema, const std::vector<RecordField>& record) {
  for (const auto& [field, bytes] : record) {
    const auto known =
        std::find_if(schema.begin(), schema.end(), [&](const Field& one) { return one.name == field.name; });
    if (known == schema.end()) {
      schema.push_back(field);
      continue;
    }
    if (known->encoding != field.encoding || known->type != field.type || known->shape.size() != field.shape.size()) {
      fail(Fault::Data, fmt::format("samples have different fields: {} and {}", known->text(), field.text()));
    }
    for (std::size_t dim = 0; dim < field.shape.size(); ++dim) {
      if (known->shape[dim] != field.shape[dim]) known->shape[dim] = -1;
    }
  }
}

}  // namespace lockstep::data
