#include "lockstep/data/member_groups.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

using c10::ScalarType;

constexpr std::string_view kNumber = "number", kArray = "npy";
/// More are no fields but an archive of something else; each costs an entry in every sample.
constexpr std::size_t kMostFields = 256;

struct Extension {
  std::string_view name;
  Encoding encoding;
  std::string_view how;
};
/// The first of a kind is what a writer uses.
constexpr std::array kExtensions = {
    Extension{"jpg", Encoding::Jpeg, ""},          Extension{"jpeg", Encoding::Jpeg, ""},
    Extension{"png", Encoding::Png, ""},           Extension{"txt", Encoding::Text, ""},
    Extension{"json", Encoding::Text, ""},         Extension{"cls", Encoding::Values, kNumber},
    Extension{"index", Encoding::Values, kNumber}, Extension{"npy", Encoding::Values, kArray},
    Extension{"bin", Encoding::Raw, ""},
};

bool same_letters(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

/// A field from what stands behind the key: "jpg", "left.jpg", "anything".
MemberName parse_suffix(std::string_view suffix) {
  const auto dot = suffix.rfind('.');
  const std::string_view extension = dot == std::string_view::npos ? suffix : suffix.substr(dot + 1);
  const auto* known = std::find_if(kExtensions.begin(), kExtensions.end(),
                                   [&](const auto& candidate) { return same_letters(candidate.name, extension); });
  MemberName name;
  if (known == kExtensions.end()) {
    name.field = {std::string(suffix), Encoding::Raw};
    return name;
  }
  const bool alone = dot == std::string_view::npos || dot == 0;
  name.field = {std::string(alone ? known->name : suffix.substr(0, dot)), known->encoding};
  name.how = known->how;
  if (known->how == kNumber) name.field.type = ScalarType::Long;
  return name;
}

// ---- reading -------------------------------------------------------------------------------------

/// Dims that differ are known with each sample only.
void join_shapes(std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& other) {
  if (shape.size() != other.size()) return;  // an Error when it is read
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] != other[dim]) shape[dim] = -1;
  }
}

void decode_number(const Field& field, Bytes bytes, Sample& sample, Value& value) {
  std::string_view text = as_text(bytes);
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(Fault::Data, fmt::format("'{}' holds '{}', which is no whole number", field.name, text.substr(0, 40)));
  }
  const auto memory = sample.scratch.take(sizeof number);
  std::memcpy(memory.data(), &number, sizeof number);
  value = {memory, {}, false};
}

void decode_array(const Field& field, Bytes bytes, Value& value) {
  const NpyHeader header = parse_npy_header(bytes);
  const Field found = {field.name, Encoding::Values, header.type, header.shape};
  bool fits = header.type == field.type && header.shape.size() == field.shape.size();
  for (std::size_t dim = 0; fits && dim < field.shape.size(); ++dim) {
    fits = field.shape[dim] == -1 || field.shape[dim] == header.shape[dim];
  }
  if (!fits) fail(Fault::Data, fmt::format("an array is {}, but the first one is {}", found.text(), field.text()));
  if (bytes.size() - header.data_offset != header.data_bytes()) {
    fail(Fault::Data, fmt::format("the array {} has {} bytes instead of {}", found.text(),
                                  bytes.size() - header.data_offset, header.data_bytes()));
  }
  value = {bytes.subspan(header.data_offset), Shape(header.shape.begin(), header.shape.end()), false};
}

// ---- writing -------------------------------------------------------------------------------------

bool reads_back(const std::string& suffix, const Field& field, std::string_view how) {
  const MemberName name = parse_suffix(suffix);
  return name.field.name == field.name && name.field.encoding == field.encoding && name.how == how;
}

std::string_view how_to_write(const Field& field) {
  if (field.encoding != Encoding::Values) return "";
  const bool label = field.type == ScalarType::Long && field.shape.empty() &&
                     (field.name == "label" || parse_suffix(field.name).how == kNumber);
  return label ? kNumber : kArray;
}

std::string key_for(const std::string& key) {
  std::string safe = key;
  const auto last = safe.rfind('/') + 1;
  std::replace(safe.begin() + static_cast<std::ptrdiff_t>(last), safe.end(), '.', '_');
  return safe;
}

std::string member_bytes(const Field& field, const Value& value) {
  const std::string_view how = how_to_write(field);
  if (how == kNumber) {
    std::int64_t number = 0;
    if (value.bytes.size() != sizeof number) {
      fail(Fault::Data, fmt::format("'{}' has {} bytes instead of 8", field.name, value.bytes.size()));
    }
    std::memcpy(&number, value.bytes.data(), sizeof number);
    return std::to_string(number);
  }
  std::string bytes;
  if (how == kArray) bytes = npy_header(field.type, {value.shape.begin(), value.shape.end()});
  return bytes.append(as_text(value.bytes));
}

}  // namespace

bool is_hidden(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part == "__MACOSX" || (part.starts_with('.') && part != "." && part != "..")) return true;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return false;
}

std::optional<MemberName> parse_member_name(std::string_view name) {
  while (name.starts_with("./")) name.remove_prefix(2);
  const auto slash = name.rfind('/');
  const auto dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos || dot + 1 == name.size() || is_hidden(name)) return std::nullopt;
  MemberName parsed = parse_suffix(name.substr(dot + 1));
  parsed.key = name.substr(0, dot);
  return parsed;
}

std::string member_suffix(const Field& field) {
  const bool path = field.name.find('/') != std::string::npos || field.name.find('\0') != std::string::npos;
  if (path || field.name.empty()) {
    fail(Fault::Usage, fmt::format("a field called '{}' cannot be part of a file's name", field.name));
  }
  const std::string_view how = how_to_write(field);
  if (reads_back(field.name, field, how)) return field.name;
  const auto* extension = std::find_if(kExtensions.begin(), kExtensions.end(), [&](const auto& candidate) {
    return candidate.encoding == field.encoding && candidate.how == how;
  });
  return fmt::format("{}.{}", field.name, extension->name);
}

// ---- MemberGroups --------------------------------------------------------------------------------

void MemberGroups::begin_sample(const std::string& key) {
  key_ = key;
  index_.add_key(key);
  ++index_.samples;
  for (auto& column : index_.columns) column.extents.push_back({0, 0, kAbsent});
}

void MemberGroups::add_column(const MemberName& name, const std::optional<NpyHeader>& array) {
  if (index_.columns.size() == kMostFields) {
    fail(Fault::Data, fmt::format("more than {} kinds of files: an archive of samples has few extensions; name files "
                                  "KEY.EXTENSION",
                                  kMostFields));
  }
  Column column;
  column.fields = {static_cast<std::uint32_t>(index_.schema.size())};
  column.extents.assign(static_cast<std::size_t>(index_.samples), {0, 0, kAbsent});
  column.how = name.how;
  index_.columns.push_back(std::move(column));
  index_.schema.push_back(name.field);
  if (array) {
    index_.schema.back().type = array->type;
    index_.schema.back().shape = array->shape;
  }
}

std::size_t MemberGroups::column_of(const MemberName& name, const std::function<Bytes()>& head) {
  std::optional<NpyHeader> array;
  if (name.how == kArray) array = parse_npy_header(head());
  const auto [found, is_new] = columns_.try_emplace(name.field.name, index_.columns.size());
  const std::size_t place = found->second;
  if (is_new) {
    add_column(name, array);
    return place;
  }
  Field& field = index_.schema[place];
  if (field.encoding != name.field.encoding || index_.columns[place].how != name.how) {
    fail(Fault::Data, fmt::format("it is of another kind than those before it, which are {}", field.text()));
  }
  if (array) join_shapes(field.shape, array->shape);
  return place;
}

std::optional<std::size_t> MemberGroups::add(const Member& member, const std::function<Bytes()>& head) {
  const auto name = parse_member_name(member.name);
  if (!name) return std::nullopt;
  try {
    if (index_.samples == 0 || name->key != key_) begin_sample(name->key);
    const std::size_t place = column_of(*name, head);
    Extent& extent = index_.columns[place].extents.back();
    if (extent.length != kAbsent) {
      fail(Fault::Data, fmt::format("sample '{}' has its field '{}' twice", name->key, name->field.name));
    }
    extent = member.place;
    return place;
  } catch (Error& error) {
    throw error.during(fmt::format("reading member '{}' at byte {}", member.name, member.header_offset));
  }
}

void decode_member(const Index& index, const Column& column, std::string_view how, Bytes bytes, Sample& sample) {
  const std::size_t place = column.fields[0];
  const Field& field = index.schema[place];
  Value& value = sample.values[place];
  if (how == kNumber) return decode_number(field, bytes, sample, value);
  if (how == kArray) return decode_array(field, bytes, value);
  value = {bytes, {}, false};
}

std::vector<Schema> with_joined_shapes(std::vector<Schema> schemas) {
  Schema& joined = schemas.at(0);
  const auto each_field = [&](const auto& work) {
    for (auto& schema : schemas) {
      for (std::size_t place = 0; place < std::min(schema.size(), joined.size()); ++place) {
        work(joined[place].shape, schema[place].shape);
      }
    }
  };
  each_field([](auto& all, const auto& one) { join_shapes(all, one); });
  each_field([](const auto& all, auto& one) { join_shapes(one, all); });
  return schemas;
}

// ---- MemberWriter --------------------------------------------------------------------------------

MemberWriter::MemberWriter(const Schema& schema) : schema_(schema) {
  for (const auto& field : schema) suffixes_.push_back(member_suffix(field));
}

void MemberWriter::add(const std::string& key, const Sample& sample) {
  const std::string safe = key_for(key);
  if (safe == key_) fail(Fault::Data, fmt::format("two samples in a row have the key '{}'", safe));
  key_ = safe;
  bool any = false;
  for (std::size_t place = 0; place < schema_.size(); ++place) {
    const Value& value = sample.values.at(place);
    if (value.missing) continue;
    const std::string name = fmt::format("{}.{}", safe, suffixes_[place]);
    const auto again = parse_member_name(name);
    if (!again || again->key != safe) {
      fail(Fault::Data, fmt::format("the key '{}' would be a hidden file; give the sample another one", key));
    }
    put(name, member_bytes(schema_[place], value));
    any = true;
  }
  if (!any) fail(Fault::Data, fmt::format("sample '{}' has no values at all, so no file can stand for it", key));
}

}  // namespace lockstep::data
