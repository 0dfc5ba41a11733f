// lockstep/data/stored_dataset.h
//
// A source on disk as a Dataset: its Index says where, FileBytes fetch, its Format
// decodes. Blocks that unpack to many samples are kept for the next reader.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/block_cache.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/format.h"

namespace lockstep::data {

class StoredDataset final : public Dataset {
 public:
  /// One of so many sources that are opened together: of too many, files are opened at each read.
  StoredDataset(const std::string& path, Index index, std::size_t together = 1);
  /// With its bytes from elsewhere, by place in the index's list of files.
  StoredDataset(const std::string& path, Index index, std::vector<std::shared_ptr<const FileBytes>> files);

  const Schema& schema() const noexcept override { return index_.schema; }
  std::int64_t size() const noexcept override { return index_.samples; }
  void read(std::int64_t sample, Sample& into) const override;
  void prefetch(std::int64_t sample) const noexcept override;
  void bring_in(std::int64_t sample, Scratch& scratch) const override;
  std::string name(std::int64_t sample) const override;
  std::string key(std::int64_t sample) const override;
  bool verify(std::int64_t sample) const override;

  const Index& index() const noexcept { return index_; }
  /// hash64 over the bytes of all its columns.
  std::uint64_t checksum(std::int64_t sample, Scratch& scratch) const;

 private:
  /// The bytes of an entry as decode() takes them; no memory at all if the sample has none.
  std::optional<Bytes> bytes_of(std::size_t column, std::int64_t sample, Scratch& scratch) const;
  Bytes row_of_block(std::size_t column, std::int64_t sample, Scratch& scratch) const;
  Bytes fetch(const Extent& extent, Scratch& scratch) const;

  std::string path_;
  Index index_;
  const Format& format_;
  std::vector<std::shared_ptr<const FileBytes>> files_;
  mutable BlockCache blocks_;
};

/// The folder that the paths in an index are relative to: the source itself, or the one it lies in.
std::string folder_of(const std::string& path);

}  // namespace lockstep::data
