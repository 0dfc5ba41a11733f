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
#include "lockstep/data/exchange.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/stored_dataset.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Bytes between samples, such as the headers of an archive, that are read along rather than around.
constexpr std::uint64_t kGap = 4096;

/// Ascending, with what overlaps or nearly touches made one.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<Interval> apart;
  for (const auto& interval : intervals) {
    if (interval.begin == interval.end) continue;
    if (!apart.empty() && interval.begin <= apart.back().end + kGap)
      apart.back().end = std::max(apart.back().end, interval.end);
    else
      apart.push_back(interval);
  }
  return apart;
}

/// Where samples [first, end) of an index lie, by file.
std::vector<std::vector<Interval>> intervals_of(const Index& index, std::int64_t first, std::int64_t end) {
  std::vector<std::vector<Interval>> files(index.files.size());
  const auto add = [&](const Extent& extent) {
    if (extent.file == kInIndex || extent.length == kAbsent) return;
    files[extent.file].push_back({extent.offset, extent.offset + extent.length});
  };
  if (first == end) return files;
  for (const auto& column : index.columns) {
    if (column.layout == Column::Layout::Uniform) {
      const Extent from = column.extent(first), to = column.extent(end - 1);
      add({from.file, from.offset, to.offset + to.length - from.offset});
    } else if (column.layout == Column::Layout::Table) {
      for (std::int64_t sample = first; sample < end; ++sample) add(column.extent(sample));
    } else {
      const auto rows = static_cast<std::int64_t>(column.rows_per_block);
      for (std::int64_t block = first / rows; block <= (end - 1) / rows; ++block)
        add(column.extents[static_cast<std::size_t>(block)]);
    }
  }
  for (auto& file : files) file = merged(std::move(file));
  return files;
}

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

}  // namespace

DatasetPtr open_cached(const std::string& source, const OpenOptions& options, const CacheOptions& cache,
                       comm::Communicator& group) {
  const std::vector<std::string> modes = {"none", "node", "cluster"};
  if (std::find(modes.begin(), modes.end(), cache.cache) == modes.end()) {
    fail(Fault::Usage, fmt::format("cache = \"{}\"{}", cache.cache, proposal(cache.cache, modes)));
  }
  // What is generated is read from nowhere.
  if (cache.cache == "none" ||
      (!fs::exists(source) && DatasetRegistry::instance().contains(source.substr(0, source.find(':'))))) {
    return open(source, options);
  }
  const auto paths = expand(source);
  auto indices = indices_of(paths, options, group);
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
  const HeldSamples held = node ? HeldSamples{0, samples} : held_by(samples, group.size(), group.rank());
  const auto host = ranks_of_host(group);

  std::vector<std::vector<std::vector<Interval>>> intervals;  // by source file, then by file of its index
  std::size_t bytes = 0;
  std::int64_t before = 0;
  for (const auto& index : indices) {
    const std::int64_t first = std::clamp<std::int64_t>(held.first - before, 0, index.samples);
    const std::int64_t end = std::clamp<std::int64_t>(held.end - before, 0, index.samples);
    intervals.push_back(intervals_of(index, first, end));
    for (const auto& file : intervals.back()) bytes += Allotment::rounded(cache_bytes(file));
    before += index.samples;
  }
  check_quota(bytes, cache, node ? 1 : host->size());
  Allotment memory(node ? shared_memory(bytes, cache.folder, *host) : private_memory(bytes, cache.folder));

  return join_files(paths, std::move(indices), [&](std::size_t i, const Index& index) {
    std::vector<std::shared_ptr<const FileBytes>> files;
    for (std::size_t number = 0; number < index.files.size(); ++number) {
      const auto& range = intervals[i][number];
      const std::string path = (fs::path(folder_of(paths[i])) / index.files[number].path).string();
      files.push_back(cached_file(path, range, memory.take(cache_bytes(range))));
    }
    return files;
  });
}

}  // namespace lockstep::data
