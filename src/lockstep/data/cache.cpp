#include "lockstep/data/cache.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/cache_memory.h"
#include "lockstep/data/cached_file.h"
#include "lockstep/data/decompress.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/holders.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/stored_dataset.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

std::int64_t quota_of(const CacheOptions& cache) {
  return cache.quota_bytes > 0 ? cache.quota_bytes : machine().memory_bytes / 2;
}

void check_quota(std::size_t bytes, const CacheOptions& cache, int ranks_on_host) {
  const auto needed = static_cast<std::int64_t>(bytes) * ranks_on_host;
  if (needed <= quota_of(cache)) return;
  fail(Fault::Usage, fmt::format("cache = \"{}\" would hold {} on this host, but its quota is {}; raise the quota{}{}",
                                 cache.cache, format_bytes(needed), format_bytes(quota_of(cache)),
                                 cache.folder.empty() ? ", name a folder on the host's own disk" : "",
                                 cache.cache == "node" ? ", or use cache = \"cluster\"" : ", or use more hosts"));
}

/// Memory for some files, one behind the other.
class Allotment {
 public:
  explicit Allotment(CacheMemory memory) : memory_(std::move(memory)) {}
  CacheMemory take(std::size_t bytes) {
    const CacheMemory part = {{memory_.bytes, memory_.bytes.get() + used_}, bytes};
    used_ += rounded(bytes);
    return part;
  }
  static std::size_t rounded(std::size_t bytes) {
    constexpr std::size_t kAlignment = 64;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  CacheMemory memory_;
  std::size_t used_ = 0;
};

/// The indices of all files, as the first rank read or made them.
std::vector<Index> indices_of(const std::vector<std::string>& paths, const OpenOptions& options,
                              comm::Communicator& group) {
  std::vector<Index> indices;
  for (const auto& path : paths) {
    std::string bytes;
    if (group.rank() == 0) bytes = index_of(path, options).serialize();
    indices.push_back(Index::parse(group.broadcast_bytes(bytes, 0)));
  }
  return indices;
}

/// Of which each rank holds a run.
class Divided final : public Dataset {
 public:
  Divided(DatasetPtr whole, Holders holders) : whole_(std::move(whole)), holders_(std::move(holders)) {}

  const Schema& schema() const noexcept override { return whole_->schema(); }
  std::int64_t size() const noexcept override { return whole_->size(); }
  void read(std::int64_t index, Sample& sample) const override { whole_->read(index, sample); }
  void prefetch(std::int64_t index) const noexcept override { whole_->prefetch(index); }
  void bring_in(std::int64_t index, Scratch& scratch) const override { whole_->bring_in(index, scratch); }
  std::string name(std::int64_t index) const override { return whole_->name(index); }
  std::string key(std::int64_t index) const override { return whole_->key(index); }
  bool verify(std::int64_t index) const override { return whole_->verify(index); }
  const Holders* holders() const noexcept override { return &holders_; }

 private:
  DatasetPtr whole_;
  Holders holders_;
};

DatasetPtr divided(DatasetPtr whole, Holders holders) {
  return std::make_shared<Divided>(std::move(whole), std::move(holders));
}

}  // namespace

DatasetPtr open_cached(const std::string& source, const OpenOptions& options, const CacheOptions& cache,
                       comm::Communicator& group) {
  const std::vector<std::string> modes = {"none", "node", "cluster"};
  if (std::find(modes.begin(), modes.end(), cache.cache) == modes.end()) {
    fail(Fault::Usage, fmt::format("cache = \"{}\"{}", cache.cache, proposal(cache.cache, modes)));
  }
  // What is generated is read from nowhere.
  if (cache.cache == "none" ||
      (!is_there(source) && DatasetRegistry::instance().contains(source.substr(0, source.find(':'))))) {
    auto whole = open(source, options);
    if (cache.cache != "cluster") return whole;
    const Holders holders(whole->size(), group.size());
    return divided(std::move(whole), holders);
  }
  const auto [named, chosen] = source_named(source, options);
  const auto paths = files_named(named);
  auto indices = indices_of(paths, chosen, group);
  std::int64_t samples = 0;
  for (const auto& index : indices) {
    samples += index.samples;
    for (const auto& file : index.files) {
      if (is_compressed_name(file.path)) {
        fail(
            Fault::Usage,
            fmt::format("{} is compressed as a whole, so no part of it can be cached; use 'lockstep pack'", file.path));
      }
    }
  }
  const bool node = cache.cache == "node";
  const Holders holders(indices, group.size());
  const HeldSamples held = node ? HeldSamples{0, samples} : holders.held_by(group.rank());
  const auto host = ranks_of_host(group);

  std::vector<std::vector<std::vector<Interval>>> intervals;  // by source file, then by file of its index
  std::size_t bytes = 0;
  std::int64_t before = 0;
  for (const auto& index : indices) {
    const std::int64_t first = std::clamp<std::int64_t>(held.first - before, 0, index.samples);
    const std::int64_t end = std::clamp<std::int64_t>(held.end - before, 0, index.samples);
    intervals.push_back(intervals_of(index, {first, end}));
    for (const auto& file : intervals.back()) bytes += Allotment::rounded(cache_bytes(file));
    before += index.samples;
  }
  check_quota(bytes, cache, node ? 1 : host->size());
  Allotment memory(node ? shared_memory(bytes, cache.folder, *host) : private_memory(bytes, cache.folder));

  auto whole = join_files(paths, std::move(indices), [&](std::size_t i, const Index& index) {
    std::vector<std::shared_ptr<const FileBytes>> files;
    for (std::size_t number = 0; number < index.files.size(); ++number) {
      const auto& range = intervals[i][number];
      const std::string path = (fs::path(folder_of(paths[i])) / index.files[number].path).string();
      files.push_back(cached_file(path, range, memory.take(cache_bytes(range))));
    }
    return files;
  });
  return node ? whole : divided(std::move(whole), holders);
}

}  // namespace lockstep::data
