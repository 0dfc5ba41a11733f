#include "lockstep/data/holders.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::data {
namespace {

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

std::uint64_t bytes_of(const Column& column) {
  return std::accumulate(column.extents.begin(), column.extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Extent& extent) { return sum + extent.length; });
}

/// After so many samples of a file, and multiples of that, a run may end.
std::int64_t samples_together(const Index& index, std::int64_t share) {
  std::vector<std::pair<std::uint64_t, const Column*>> packed;  // by bytes
  for (const auto& column : index.columns) {
    if (column.layout == Column::Layout::Blocks) packed.emplace_back(bytes_of(column), &column);
  }
  std::stable_sort(packed.begin(), packed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::int64_t together = 1;
  for (const auto& [bytes, column] : packed) {
    // A block may claim more rows than there are: then it is the only one.
    const auto rows = static_cast<std::int64_t>(
        std::min(column->rows_per_block, static_cast<std::uint64_t>(std::max<std::int64_t>(index.samples, 1))));
    if (column == packed.front().second) {
      together = rows;
    } else if (const std::int64_t turns = rows / std::gcd(together, rows); turns <= share / together) {
      together *= turns;
    }
  }
  return together;
}

}  // namespace

Holders::Holders(std::int64_t samples, int ranks) {
  for (int rank = 1; rank <= ranks; ++rank) ends_.push_back(samples * rank / ranks);
}

Holders::Holders(const std::vector<Index>& files, int ranks) {
  std::int64_t samples = 0;
  for (const auto& file : files) samples += file.samples;
  auto file = files.begin();
  std::int64_t before = 0, together = 0;
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t even = samples * rank / ranks;
    for (; file != files.end() && before + file->samples < even; ++file, together = 0) before += file->samples;
    if (file == files.end()) break;
    if (together == 0) together = samples_together(*file, samples / ranks);
    const std::int64_t below = (even - before) / together * together;
    const std::int64_t above = std::min(below + together, file->samples);
    ends_.push_back(before + (even - before - below <= before + above - even ? below : above));
  }
  ends_.resize(static_cast<std::size_t>(ranks), samples);
}

HeldSamples Holders::held_by(int rank) const {
  const auto place = static_cast<std::size_t>(rank);
  return {place == 0 ? 0 : ends_[place - 1], ends_[place]};
}

int Holders::holder_of(std::int64_t id) const {
  return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), id) - ends_.begin());
}

std::vector<std::vector<Interval>> intervals_of(const Index& index, HeldSamples held) {
  std::vector<std::vector<Interval>> files(index.files.size());
  const auto add = [&](const Extent& extent) {
    if (extent.file == kInIndex || extent.length == kAbsent) return;
    files[extent.file].push_back({extent.offset, extent.offset + extent.length});
  };
  const auto [first, end] = held;
  if (first == end) return files;
  // Rows that follow one another in the file.
  const auto add_rows = [&](const Column& column, std::int64_t from, std::int64_t last) {
    const Extent begin = column.extent(from), to = column.extent(last);
    add({begin.file, begin.offset, to.offset + to.length - begin.offset});
  };
  for (const auto& column : index.columns) {
    const auto rows = static_cast<std::int64_t>(std::min<std::uint64_t>(column.rows_per_block, INT64_MAX));
    switch (column.layout) {
      case Column::Layout::Uniform: add_rows(column, first, end - 1); break;
      case Column::Layout::Table:
        for (std::int64_t sample = first; sample < end; ++sample) add(column.extent(sample));
        break;
      case Column::Layout::Blocks:
        for (std::int64_t block = first / rows; block <= (end - 1) / rows; ++block)
          add(column.extents[static_cast<std::size_t>(block)]);
        break;
      case Column::Layout::Chunks:
        for (std::int64_t from = first; from < end;) {
          const std::int64_t left = rows - from % rows, count = std::min(left, end - from);
          add_rows(column, from, from + count - 1);
          from += count;
        }
        break;
    }
  }
  for (auto& file : files) file = merged(std::move(file));
  return files;
}

}  // namespace lockstep::data
