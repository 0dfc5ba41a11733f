#include "lockstep/data/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostDims = 64;  // NumPy's own limit
constexpr std::array kTypes = {
    std::pair{"u1", ScalarType::Byte},   std::pair{"i1", ScalarType::Char},   std::pair{"i2", ScalarType::Short},
    std::pair{"i4", ScalarType::Int},    std::pair{"i8", ScalarType::Long},   std::pair{"u2", ScalarType::UInt16},
    std::pair{"u4", ScalarType::UInt32}, std::pair{"u8", ScalarType::UInt64}, std::pair{"f2", ScalarType::Half},
    std::pair{"f4", ScalarType::Float},  std::pair{"f8", ScalarType::Double}, std::pair{"b1", ScalarType::Bool},
};

/// A reader of the Python dictionary in the head: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  /// What stands behind 'key': up to the end of the value.
  std::string_view value(std::string_view key) const {
    const auto place = text_.find(fmt::format("'{}':", key));
    if (place == std::string_view::npos) fail(Fault::Data, fmt::format("the npy head has no '{}'", key));
    auto rest = text_.substr(place + key.size() + 3);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const char open = rest.empty() ? ' ' : rest.front();
    const auto end = open == '(' ? rest.find(')') : open == '\'' ? rest.find('\'', 1) : rest.find_first_of(",}");
    if (open == '[') fail(Fault::Data, "an npy file with named columns; save its columns one by one, or as npz");
    if (end == std::string_view::npos) fail(Fault::Data, fmt::format("the npy head is torn at '{}'", key));
    return open == '(' || open == '\'' ? rest.substr(1, end - 1) : rest.substr(0, end);
  }

 private:
  std::string_view text_;
};

ScalarType type_of(std::string_view descr) {
  const char order = descr.empty() ? ' ' : descr.front();
  const std::string_view kind = descr.substr(std::min<std::size_t>(1, descr.size()));
  for (const auto& [name, type] : kTypes) {
    if (kind != name) continue;
    if (order == '>' && c10::elementSize(type) > 1) {
      fail(Fault::Data, fmt::format("its numbers are big-endian ('{}'); save it with .astype('<{}')", descr, kind));
    }
    return type;
  }
  fail(Fault::Data, fmt::format("its element type '{}' is none that a tensor can have", descr));
}

std::vector<std::int64_t> shape_of(std::string_view text) {
  std::vector<std::int64_t> shape;
  for (const auto& part : split(text, ',')) {
    const auto begin = part.find_first_not_of(' ');
    if (begin == std::string::npos) continue;  // behind the last comma
    std::int64_t size = -1;
    const auto [end, error] = std::from_chars(part.data() + begin, part.data() + part.size(), size);
    if (error != std::errc() || end != part.data() + part.size() || size < 0) {
      fail(Fault::Data, fmt::format("the npy head has the shape ({})", text));
    }
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

std::uint64_t NpyHeader::data_bytes() const noexcept {
  std::uint64_t bytes = c10::elementSize(type);
  for (const auto size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

bool is_npy(Bytes head) noexcept { return as_text(head).starts_with(kMagic); }

NpyHeader parse_npy_header(Bytes head) {
  const std::string_view text = as_text(head);
  if (!is_npy(head) || text.size() < 12) fail(Fault::Data, "not an npy file: it does not begin with \\x93NUMPY");
  const int version = text[6];
  const std::size_t width = version == 1 ? 2 : 4;
  if (version < 1 || version > 3) fail(Fault::Data, fmt::format("npy version {} is unknown", version));
  std::uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, width);
  if (length > text.size() - 8 - width) fail(Fault::Data, "the npy head is cut short");
  const Dictionary dictionary(text.substr(8 + width, length));
  NpyHeader header;
  header.type = type_of(dictionary.value("descr"));
  header.shape = shape_of(dictionary.value("shape"));
  if (dictionary.value("fortran_order") != "False" && header.shape.size() > 1) {
    fail(Fault::Data, "its elements lie in Fortran order; save it with numpy.ascontiguousarray");
  }
  // Sizes beside a zero too: a row of an array without rows must have a size that can be counted.
  std::int64_t bytes = 16;  // of the largest element, as a schema has it
  bool possible = header.shape.size() <= kMostDims;
  for (const auto size : header.shape) {
    possible = possible && (size == 0 || !__builtin_mul_overflow(bytes, size, &bytes));
  }
  if (!possible) {
    fail(Fault::Data, fmt::format("the npy head has the impossible shape ({:.100})", dictionary.value("shape")));
  }
  header.data_offset = 8 + width + length;
  return header;
}

std::string npy_header(ScalarType type, const std::vector<std::int64_t>& shape, std::size_t least_bytes) {
  std::string descr;
  for (const auto& [name, known] : kTypes) {
    if (known == type) descr = fmt::format("{}{}", c10::elementSize(type) == 1 ? '|' : '<', name);
  }
  if (descr.empty()) fail(Fault::Usage, fmt::format("npy has no type for {}", c10::toString(type)));
  std::string sizes;
  for (const auto size : shape) sizes += std::to_string(size) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) sizes.resize(sizes.size() - 2);
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sizes);
  const std::size_t before = kMagic.size() + 4;
  const std::size_t bytes = std::max(least_bytes, before + text.size() + 1);
  text.append((bytes + kAlignment - 1) / kAlignment * kAlignment - before - text.size() - 1, ' ');
  text += '\n';
  const auto length = static_cast<std::uint16_t>(text.size());
  std::string head(kMagic);
  head += '\x01';
  head += '\0';
  head.append(reinterpret_cast<const char*>(&length), sizeof length);
  return head + text;
}

}  // namespace lockstep::data
