// lockstep/data/order.h
//
// In which order samples are seen: a pure function of seed, epoch and position. It
// knows neither ranks nor batches, so whoever goes on at a position, with any number
// of ranks and any batch size, continues the same sequence. Any thread may ask.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/registry.h"

namespace lockstep::data {

class Order {
 public:
  virtual ~Order() = default;
  /// Positions of one epoch.
  virtual std::int64_t length() const noexcept = 0;
  /// The sample at `position`, which is below length(), of `epoch`.
  virtual std::int64_t at(std::int64_t epoch, std::int64_t position) const noexcept = 0;
};

/// Samples that are drawn from together.
struct SampleGroup {
  double weight = 1;
  std::int64_t first = 0;  // of consecutive samples
  std::int64_t count = 0;
  std::vector<std::int64_t> samples = {};  // instead, where they are not consecutive
  std::int64_t size() const noexcept { return samples.empty() ? count : static_cast<std::int64_t>(samples.size()); }
};

struct OrderOptions {
  std::int64_t samples = 0;  // of the data set
  std::uint64_t seed = 0;
  // Of "blocked": consecutive samples that are read together, and blocks that are shuffled with each other.
  // Of "by_length": samples of like length that come together (a multiple of the batch), and blocks among
  // which they are dealt out anew in every epoch.
  std::int64_t block = 1024;
  std::int64_t window = 16;
  std::vector<std::int64_t> lengths = {};  // of "by_length", of all samples (see lengths_of)
  std::vector<SampleGroup> groups = {};    // of "mix": sets and their weights; of "balanced": classes
  std::int64_t length = 0;                 // of an epoch of "mix"; 0: as many as there are samples
};

using OrderRegistry = Registry<std::unique_ptr<Order>(const OrderOptions& options)>;

std::unique_ptr<Order> make_order(const std::string& name, const OrderOptions& options);

}  // namespace lockstep::data
