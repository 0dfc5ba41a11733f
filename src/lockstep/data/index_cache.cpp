#include "lockstep/data/index_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "lockstep/data/on_threads.h"
#include "lockstep/data/stored_dataset.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFingerprintBytes = 64 << 10;

std::string beside(const std::string& path) { return path + ".lsx"; }

std::string in_cache(const std::string& folder, const std::string& path) {
  return fmt::format("{}/index/{:016x}.lsx", folder, hash64(fs::absolute(path).lexically_normal().string()));
}

/// Where an index may be kept, the better place first.
std::vector<std::string> places_of(const std::string& path) { return {beside(path), in_cache(cache_path(), path)}; }

std::string words_of(const OpenOptions& options) {
  return fmt::format("window {} stride {} type {} separator '{}' header {} fields '{}'", options.window, options.stride,
                     options.token_type, options.separator, options.header, join(options.fields, ","));
}

/// Of a file as it lies on the disk.
IndexedFile described(const std::string& folder, const IndexedFile& file) {
  const std::string path = (fs::path(folder) / file.path).string();
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) fail_errno("cannot read " + path, errno);
  return {file.path, file.bytes, static_cast<std::uint64_t>(status.st_size),
          status.st_mtim.tv_sec * std::int64_t{1'000'000'000} + status.st_mtim.tv_nsec, 0};
}

std::uint64_t fingerprint(const std::string& folder, const IndexedFile& file) {
  const auto bytes = plain_file((fs::path(folder) / file.path).string(), file.size);
  Scratch scratch;
  const std::uint64_t head = std::min(file.size, kFingerprintBytes);
  const auto first = hash64(as_text(bytes->read(0, head, scratch)));
  return hash64(as_text(bytes->read(file.size - head, head, scratch)), first);
}

/// Whether a file is what it was when `index` was made.
bool same(const std::string& folder, const IndexedFile& then, const Index& index, bool as_kept) {
  std::error_code unreadable;
  const auto path = fs::path(folder) / then.path;
  if (!fs::exists(path, unreadable)) return false;
  const IndexedFile now = described(folder, then);
  if (now.size != then.size) return false;
  if (as_kept || now.mtime_ns == then.mtime_ns) return true;
  // A copy, or a touch, changes the time alone. Where a scan found the samples only another can tell,
  // but the rows of an array lie where they lay.
  return index.only_arrays() && fingerprint(folder, now) == then.fingerprint;
}

bool fresh(const std::string& path, const Index& index, const std::string& format, const OpenOptions& options) {
  const std::string folder = folder_of(path);
  return index.format == format && index.asked == words_of(options) &&
         std::all_of(index.files.begin(), index.files.end(),
                     [&](const auto& file) { return same(folder, file, index, options.as_kept); }) &&
         format_named(format).unchanged(path, index);
}

std::string take(std::istream& in, std::uint64_t bytes) {
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::optional<Index> kept(const std::string& file, bool with_checksums) {
  std::ifstream in(file, std::ios::binary);
  std::error_code unreadable;
  const std::uint64_t size = fs::file_size(file, unreadable);
  if (!in || unreadable) return std::nullopt;
  try {
    const std::string front = take(in, Index::kFrontBytes);
    Index index = Index::parse(front + take(in, std::min(Index::bytes_after(front), size)));
    if (with_checksums && in.peek() != std::ifstream::traits_type::eof()) index.parse_checksums(take(in, size));
    return index;
  } catch (const Error&) {
    log().info("{} cannot be read; the source is scanned again", file);
    return std::nullopt;
  }
}

bool keep(const std::string& path, const Index& index) {
  const std::string bytes = index.serialize() + index.serialize_checksums();
  try {
    write_whole(beside(path), bytes);
    return true;
  } catch (const Error&) {  // a folder of somebody else
  }
  try {
    const std::string file = in_cache(cache_folder(), path);
    fs::create_directories(fs::path(file).parent_path());
    write_whole(file, bytes);
    return true;
  } catch (const std::exception& error) {
    log().warn("the index of {} cannot be kept, so every run scans it anew: {}", path, error.what());
    return false;
  }
}

Index scanned(const std::string& path, const std::string& name, const OpenOptions& options) {
  const profile::Span span("scan data");
  Index index;
  try {
    index = format_named(name).scan(path, options);
  } catch (Error& error) {
    throw error.during("scanning " + path);
  }
  index.format = name;
  index.asked = words_of(options);
  const std::string folder = folder_of(path);
  for (auto& file : index.files) file = described(folder, file);
  return index;
}

}  // namespace

std::string index_file_of(const std::string& path) {
  std::error_code unreadable;
  for (const auto& file : places_of(path)) {
    if (fs::exists(file, unreadable)) return file;
  }
  return {};
}

std::optional<Index> kept_index_of(const std::string& path, const OpenOptions& options) {
  check_can_read(path);
  const std::string format = format_of(path, options.format);
  // Both places: one beside the data that somebody else keeps may be old, and the one in the cache not.
  for (const auto& file : places_of(path)) {
    if (auto index = kept(file, options.checksums); index && fresh(path, *index, format, options)) return index;
  }
  return std::nullopt;
}

Index index_of(const std::string& path, const OpenOptions& options) {
  if (auto index = kept_index_of(path, options)) return std::move(*index);
  Index index = scanned(path, format_of(path, options.format), options);
  if (index.samples == 0) {
    // Without the names of its fields nobody knows that it is one of the set.
    if (options.may_be_empty && !index.schema.empty()) return index;
    fail(Fault::Data,
         fmt::format("{} holds no samples: check the path, or that the file was written to its end", path));
  }
  // Arrays are found without a scan; their checksums wait until somebody asks for them.
  if (index.only_arrays()) return index;
  take_checksums(path, index);
  return index;
}

std::vector<std::string> files_of_other_size(const std::string& path) {
  std::vector<std::string> found;
  const std::string file = index_file_of(path);
  if (file.empty()) return found;
  const auto index = kept(file, false);
  if (!index) return found;
  for (const auto& then : index->files) {
    const std::string name = (fs::path(folder_of(path)) / then.path).string();
    std::error_code missing;
    const auto now = fs::file_size(name, missing);
    if (missing)
      found.push_back(fmt::format("{} is gone", name));
    else if (now != then.size)
      found.push_back(fmt::format("{} has {} bytes, not {} as when it was scanned", name, now, then.size));
  }
  return found;
}

bool take_checksums(const std::string& path, Index& index) {
  const profile::Span span("checksums");
  try {
    format_named(index.format).check_own_checksums(path);
  } catch (Error& error) {
    throw error.during("taking the checksums of " + path);
  }
  const StoredDataset dataset(path, index);
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(index.samples));
  on_threads(index.samples, [&](std::int64_t number, Sample& sample) {
    checksums[static_cast<std::size_t>(number)] = dataset.checksum(number, sample.scratch);
  });
  index.checksums = std::move(checksums);
  // Only of an index that is kept: an array that is opened should cost a shared disk its head alone.
  for (auto& file : index.files) file.fingerprint = fingerprint(folder_of(path), file);
  return keep(path, index);
}

}  // namespace lockstep::data
