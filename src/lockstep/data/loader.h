// lockstep/data/loader.h
//
// A Loader reads a data set in a given order, ahead of whoever consumes it: threads
// decode and transform samples into a ring of batches that are used again and again.
// The sequence depends on the order alone, never on threads or ranks: every rank makes
// a Loader with its share of each global batch, and going on at any position continues
// the same sequence. One thread consumes. Destroying a Loader at any moment is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/batch.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/order.h"

namespace lockstep::data {

/// Parts [begin, end) of `of` nearly equal ones: a rank of several, or the virtual shards it holds.
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 1;
  std::int64_t of = 1;

  /// Of `count` samples: from this one on, and up to that one.
  std::int64_t first(std::int64_t count) const noexcept { return count * begin / of; }
  std::int64_t last(std::int64_t count) const noexcept { return count * end / of; }
};

/// Where a sequence stands: before this sample.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
  bool operator==(const Position&) const = default;
};

struct LoaderOptions {
  std::int64_t batch = 32;                   // samples of all ranks together
  Share share = {};                          // this rank's of each batch
  std::uint64_t seed = 0;                    // of the transforms' randomness
  std::vector<std::string> transforms = {};  // see Pipeline
  Position start = {};
  bool drop_last = false;         // leave out the last batch of an epoch if it is not full
  std::string on_error = "stop";  // or "skip": leave out what cannot be read, and list it
  int threads = 0;                // 0: as many as the consumer's waits call for, up to the cores
  int ahead = 4;                  // batches under way or ready
  std::int64_t pad_multiple = 1;  // lengths that differ are padded to a multiple of this
  // With cache = "cluster": the ranks among which samples travel. The group is the loader's own from
  // then on, and making and destroying the loader is a collective of it.
  comm::Communicator* exchange = nullptr;
  bool pinned = false;  // where there is CUDA, in memory that a GPU copies from by itself
};

class Loader {
 public:
  Loader(DatasetPtr dataset, std::shared_ptr<const Order> order, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, valid until the next call; nullptr at the end of an epoch, after which the
  /// next epoch follows. Throws what went wrong with a sample, naming it; the sequence then goes on
  /// behind its batch.
  const Batch* next();

  /// Where the batch after the last one handed out begins: what a checkpoint keeps.
  Position position() const noexcept;
  const Schema& schema() const noexcept;
  /// Threads in use now.
  int threads() const noexcept;
  /// Seconds that next() has waited in all.
  double waited_s() const noexcept;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace lockstep::data
