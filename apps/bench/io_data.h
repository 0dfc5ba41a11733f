// apps/bench/io_data.h
//
// The files that the input benchmarks read, the same for us and the peers: made once
// in a folder, and found there by the next run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::apps {

struct IoData {
  std::string folder;
  std::int64_t images = 100'000;
  std::int64_t records = 349'525;  // 1 GB

  static constexpr int kImageSize = 64;
  static constexpr std::int64_t kRecordBytes = 3072;
  static constexpr int kClasses = 10;
  /// Shards for a peer whose workers cannot share one archive.
  static constexpr int kShards = 8;

  std::string tar() const { return folder + "/images.tar"; }
  std::string shards() const { return folder + "/images-*.tar"; }
  std::string images_folder() const { return folder + "/images"; }
  std::string npy() const { return folder + "/records.npy"; }
  std::string record_files() const { return folder + "/records-npy"; }

  /// Makes tar() and npy() where they are not there, saying so. Fault::Usage if they are of other sizes.
  void prepare_sources() const;
  /// And the copies that peers read. Then all of them lie in the page cache.
  void prepare() const;
};

/// Fault::Usage unless a source, left by an earlier run, has so many samples.
void check_samples(const std::string& source, std::int64_t wanted);
/// Reads sources, as data::open() takes them, into the page cache: the folder may hold more, of others.
void warm(const std::vector<std::string>& sources);

}  // namespace lockstep::apps
