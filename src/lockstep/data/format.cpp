#include "lockstep/data/format.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/decompress.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHead = 512;

std::string head_of(const std::string& path) {
  std::string head(kHead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<std::string> format_by_extension(const std::string& path) {
  const std::string plain = lower(name_decompressed(path));
  for (const auto& name : FormatRegistry::instance().names()) {
    for (const auto& extension : format_named(name).extensions()) {
      if (plain.ends_with(extension)) return name;
    }
  }
  return std::nullopt;
}

[[noreturn]] void fail_unknown(const std::string& path) {
  std::string known;
  for (const auto& name : FormatRegistry::instance().names()) {
    for (const auto& extension : format_named(name).extensions()) known += " " + extension;
  }
  fail(Fault::Usage, fmt::format("{} is of no known format; known extensions:{}", path, known));
}

}  // namespace

void Format::decode(const Index& index, const Column& column, Bytes bytes, Sample& sample) const {
  const std::size_t place = column.fields[0];
  const Field& field = index.schema[place];
  sample.values[place] = {bytes, Shape(field.shape.begin(), field.shape.end()), false};
}

Schema Format::common_schema(const std::vector<Schema>& schemas) const {
  for (const auto& schema : schemas) {
    if (schema == schemas[0]) continue;
    for (std::size_t place = 0; place < std::min(schema.size(), schemas[0].size()); ++place) {
      if (schema[place] == schemas[0][place]) continue;
      fail(Fault::Data,
           fmt::format("files have different fields: {} and {}", schemas[0][place].text(), schema[place].text()));
    }
    fail(Fault::Data, fmt::format("files have different fields: {} and {} of them", schemas[0].size(), schema.size()));
  }
  return schemas.at(0);
}

std::string Format::unpack(const Index& index, const Column&, Bytes) const {
  fail(Fault::Internal, fmt::format("the format {} has no blocks", index.format));
}

std::string Format::unpack_from(const std::string&, const Index& index, const Column& column, Bytes block) const {
  return unpack(index, column, block);
}

IndexedFile scanned_file(const FileBytes& file) {
  return {fs::path(file.path()).filename().string(), file.size(), 0, 0, 0};
}

const Format& format_named(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Format>> formats;
  const std::lock_guard lock(mutex);
  auto& format = formats[name];
  if (!format) {
    try {
      format = FormatRegistry::instance().at("format", name)();
    } catch (...) {
      formats.erase(name);
      throw;
    }
  }
  return *format;
}

std::string format_to_write(const std::string& path, const std::string& wanted) {
  if (is_compressed_name(path)) {
    fail(Fault::Usage, fmt::format("{} would be compressed as a whole, which ends random access; write {} and compress "
                                   "that, or choose a format that has --compression: npz, zip, hdf5",
                                   path, name_decompressed(path)));
  }
  if (!wanted.empty()) return format_named(wanted), wanted;
  if (auto name = format_by_extension(path)) return *name;
  fail_unknown(path);
}

std::string format_of(const std::string& path, const std::string& wanted) {
  if (!wanted.empty()) return format_named(wanted), wanted;
  const auto names = FormatRegistry::instance().names();
  if (fs::is_directory(path)) {
    for (const auto& name : names) {
      if (format_named(name).recognises_folder(path)) return name;
    }
    for (const auto& name : names) {
      if (format_named(name).takes_folders()) return name;
    }
  }
  if (auto name = format_by_extension(path)) return *name;
  const std::string head = head_of(path);
  for (const auto& name : names) {
    if (format_named(name).recognises(as_bytes(head))) return name;
  }
  fail_unknown(path);
}

}  // namespace lockstep::data
