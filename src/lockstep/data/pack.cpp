#include "lockstep/data/pack.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/handle.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/on_threads.h"
#include "lockstep/data/one_for_one.h"
#include "lockstep/data/open.h"
#include "lockstep/data/stored_dataset.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

struct Shard {
  std::string path;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Of a few hundred samples, spread over all.
double mean_bytes(const Dataset& source) {
  const std::int64_t looked = std::min<std::int64_t>(source.size(), 256);
  double sum = 0;
  Sample sample;
  for (std::int64_t i = 0; i < looked; ++i) {
    source.read(source.size() * i / looked, sample);
    for (const auto& value : sample.values) sum += static_cast<double>(value.bytes.size());
  }
  return std::max(1.0, sum / static_cast<double>(looked));
}

std::vector<Shard> shards_of(const Dataset& source, const std::string& destination, const PackOptions& options) {
  const std::int64_t samples = source.size();
  if (options.shard_bytes < 0 || options.shard_samples < 0) fail(Fault::Usage, "the size of a shard is negative");
  std::int64_t each = samples;
  if (options.shard_samples > 0)
    each = options.shard_samples;
  else if (options.shard_bytes > 0)
    each = static_cast<std::int64_t>(static_cast<double>(options.shard_bytes) / mean_bytes(source));
  each = std::clamp<std::int64_t>(each, 1, samples);
  if (each == samples && options.shard_samples == 0 && options.shard_bytes == 0) return {{destination, 0, samples}};
  // Numbers of one width, so that a pattern lists the shards in order.
  const auto width = std::max<std::size_t>(5, std::to_string((samples - 1) / each).size());
  std::vector<Shard> shards;
  for (std::int64_t first = 0; first < samples; first += each) {
    shards.push_back({with_suffix(destination, fmt::format("{:0{}}", shards.size(), width)), first,
                      std::min(each, samples - first)});
  }
  return shards;
}

/// "train-00007.tar" of "train.tar"
bool is_shard_name(const std::string& name, const std::string& destination) {
  const std::string pattern = fs::path(with_suffix(destination, "#")).filename().string();
  const auto number = pattern.find('#');
  const std::size_t around = pattern.size() - 1;
  return name.size() >= around + 5 && name.starts_with(pattern.substr(0, number)) &&
         name.ends_with(pattern.substr(number + 1)) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(number),
                     name.end() - static_cast<std::ptrdiff_t>(around - number),
                     [](char letter) { return letter >= '0' && letter <= '9'; });
}

/// What lies where the shards are to lie: half a file of a process that was killed is removed; a shard of
/// an earlier pack into more of them would be read along with those of this one.
void clear_the_place(const std::string& destination, const std::vector<Shard>& shards) {
  std::set<std::string> ours;
  for (const auto& shard : shards) ours.insert(fs::path(shard.path).filename().string());
  const bool sharded = shards.size() > 1 || shards[0].path != destination;
  const fs::path folder = fs::absolute(destination).parent_path();
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (ours.contains(left_behind(name))) fs::remove_all(entry.path(), ignored);
    if (sharded && !ours.contains(name) && is_shard_name(name, destination)) {
      fail(Fault::Usage, fmt::format("{} is of a pack into other shards, and a pattern would read it along with the {} "
                                     "of this one; remove it first",
                                     entry.path().string(), shards.size()));
    }
  }
}

/// Which file it is, by whatever name.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
}

/// A file beside the destination while a pack into shards is under way: what was asked for. It is locked, so that
/// one that was interrupted is told from one that runs.
class Journal {
 public:
  Journal(const std::string& destination, std::string asked, bool sharded)
      : path_(destination + ".packing"), asked_(std::move(asked)) {
    // Into one file there is nothing to go on from; but it may not lie among shards that are being written.
    if (!sharded && !fs::exists(path_)) return;
    lock(destination);
    const std::string before = read_whole(path_);
    // Empty, or the beginning alone: of a pack that was killed before it wrote a shard.
    if (!asked_.starts_with(before)) {
      fail(Fault::Usage, fmt::format("{} is of a pack with other settings or another source that was interrupted; "
                                     "repeat that one, or remove this file and its shards",
                                     path_));
    }
    begun_ = before == asked_;
  }
  ~Journal() {
    if (file_ && !begun_) (void)unlink(path_.c_str());
  }
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// Whether the shard is of the pack that was interrupted, not of one before it.
  bool has(const Shard& shard) const {
    return begun_ && fs::exists(shard.path) && fs::last_write_time(shard.path) >= fs::last_write_time(path_);
  }
  void begin() {
    if (!file_ || begun_) return;
    const auto written = pwrite(file_.get(), asked_.data(), asked_.size(), 0);
    if (written != static_cast<ssize_t>(asked_.size())) fail_to_write(path_, written < 0 ? errno : ENOSPC);
    begun_ = true;
  }
  void end() {
    if (file_) (void)unlink(path_.c_str());
    file_.reset();
    begun_ = false;
  }

 private:
  void lock(const std::string& destination) {
    do {
      file_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
      if (!file_) fail_to_write(path_, errno);
      // A file system without locks is as one with nobody else on it.
      if (flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        fail(Fault::Usage,
             fmt::format("another pack is writing {} now; wait until it ends, or choose another name", destination));
      }
      // Whoever had the lock may have removed the file since it was opened here.
    } while (id_of(path_) != id_of(fmt::format("/proc/self/fd/{}", file_.get())));
  }

  std::string path_;
  std::string asked_;
  FileDescriptor file_;
  bool begun_ = false;
};

/// A folder may hold anything: only one that is a data set of this very format is replaced.
void check_place(const Format& format, const std::string& destination) {
  if (!fs::is_directory(destination)) return check_can_write(destination);
  if (!format.recognises_folder(destination)) {
    fail(Fault::Usage, fmt::format("{} is a folder, and not a data set of the format that would be written, so it is "
                                   "not replaced; choose another name, or remove it first",
                                   destination));
  }
}

using Progress = std::function<void(std::int64_t samples)>;

void write_shard(const Dataset& source, const Shard& shard, Writer& writer, const Progress& progress) {
  constexpr std::int64_t kTellEvery = 64;
  Sample sample;
  for (std::int64_t i = 0; i < shard.count; ++i) {
    const std::int64_t index = shard.first + i;
    source.read(index, sample);
    try {
      writer.add(source.key(index), sample);
    } catch (Error& error) {
      throw error.during("packing " + source.name(index));
    }
    if (progress && ((i + 1) % kTellEvery == 0 || i + 1 == shard.count)) progress(i % kTellEvery + 1);
  }
  writer.finish();
}

/// Some of the fields of another.
class ChosenFields final : public OneForOne {
 public:
  ChosenFields(DatasetPtr from, const std::vector<std::string>& names) : OneForOne(std::move(from)) {
    for (const auto& name : names) {
      places_.push_back(place_of(source().schema(), name));
      schema_.push_back(source().schema()[places_.back()]);
    }
  }
  const Schema& schema() const noexcept override { return schema_; }
  void read(std::int64_t index, Sample& sample) const override {
    source().read(index, sample);
    std::vector<Value> chosen;
    for (const auto place : places_) chosen.push_back(sample.values[place]);
    sample.values = std::move(chosen);
  }

 private:
  std::vector<std::size_t> places_;
  Schema schema_;
};

}  // namespace

std::string with_suffix(const std::string& path, const std::string& suffix) {
  const std::string stem = fs::path(name_decompressed(path)).stem().string(), file = fs::path(path).filename().string();
  return (fs::path(path).parent_path() / (stem + "-" + suffix + file.substr(stem.size()))).string();
}

PackSource source_of(const std::string& source, const OpenOptions& options) {
  std::error_code unreadable;
  PackSource found{source, {}};
  auto [files, chosen] = source_named(source, options);
  chosen.may_be_empty = true;
  for (const auto& path : expand(files)) {
    if (!fs::exists(path, unreadable)) return {source, {}};  // a built-in set
    const Index index = index_of(path, chosen);
    found.identity +=
        fmt::format("\n{}: {}, {}", fs::absolute(path).lexically_normal().string(), index.format, index.asked);
    found.files.push_back(path);  // a folder is replaced with all that is in it
    for (const auto& file : index.files) {
      found.identity += fmt::format("\n{} {} {}", file.path, file.size, file.mtime_ns);
      found.files.push_back((fs::path(folder_of(path)) / file.path).string());
    }
  }
  return found;
}

void check_keeps_source(const PackSource& source, const std::vector<std::string>& to_write) {
  std::map<FileId, std::string> there;
  for (const auto& path : to_write) {
    if (const auto id = id_of(path)) there.emplace(*id, path);
  }
  if (there.empty()) return;
  for (const auto& file : source.files) {
    const auto id = id_of(file);
    const auto found = id ? there.find(*id) : there.end();
    if (found == there.end()) continue;
    fail(Fault::Usage, fmt::format("{} would replace {}, which it is made of; choose another name, and remove the "
                                   "source afterwards",
                                   found->second, found->second == file ? "the source" : file));
  }
}

DatasetPtr choose_fields(DatasetPtr source, const std::vector<std::string>& names) {
  if (names.empty()) return source;
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) != name) {
      fail(Fault::Usage, fmt::format("--fields names '{}' twice; a field is written once", *name));
    }
  }
  return std::make_shared<ChosenFields>(std::move(source), names);
}

PackResult pack(const DatasetPtr& given, const std::string& destination, const PackOptions& options,
                const std::function<void(std::int64_t samples)>& progress) {
  const DatasetPtr source = choose_fields(given, options.fields);
  const std::string name = format_to_write(destination, options.format);
  const Format& format = format_named(name);
  check_place(format, destination);
  const auto shards = shards_of(*source, destination, options);
  PackResult result;
  for (const auto& shard : shards) result.files.push_back(shard.path);
  check_keeps_source(options.source, result.files);
  std::string fields;
  for (const auto& field : source->schema()) fields += field.text() + "; ";
  Journal journal(
      destination,
      fmt::format("{}\n{} samples in {} shards of {}\n{}\n{} {} {}\n", options.source.identity, source->size(),
                  shards.size(), shards[0].count, fields, name, options.write.compression, options.write.level),
      shards.size() > 1);
  clear_the_place(destination, shards);
  std::vector<const Shard*> to_do;
  for (const auto& shard : shards) {
    const bool there = journal.has(shard);
    result.shards_found += there;
    if (!there)
      to_do.push_back(&shard);
    else if (progress)
      progress(shard.count);
  }
  // A format that cannot hold such samples says so before anything is left behind.
  if (!to_do.empty()) (void)format.write(to_do[0]->path, source->schema(), options.write);
  journal.begin();
  try {
    on_threads(
        static_cast<std::int64_t>(to_do.size()),
        [&](std::int64_t number, Sample&) {
          const Shard& shard = *to_do[static_cast<std::size_t>(number)];
          const auto writer = format.write(shard.path, source->schema(), options.write);
          write_shard(*source, shard, *writer, progress);
        },
        1);
  } catch (...) {
    // With nothing to go on from, the next pack may be of other settings: those that were refused.
    if (std::none_of(shards.begin(), shards.end(), [&](const Shard& shard) { return journal.has(shard); }))
      journal.end();
    throw;
  }
  journal.end();
  result.samples = source->size();
  return result;
}

}  // namespace lockstep::data
