#include "lockstep/data/exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include <ATen/ATen.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/sample_wire.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kStopping = -1;

/// A row on its way: its length, whether it could be read, and the sample or the reason.
void append_row(std::string& bytes, const Dataset& dataset, std::int64_t id, Sample& sample) {
  const std::size_t begin = bytes.size();
  bytes.append(sizeof(std::uint64_t), '\0');
  try {
    dataset.read(id, sample);
    bytes += '\1';
    append_sample(bytes, sample);
  } catch (const Error& error) {
    bytes.resize(begin + sizeof(std::uint64_t));
    bytes += '\0';
    bytes += error.what();
  }
  const std::uint64_t length = bytes.size() - begin - sizeof length;
  std::memcpy(bytes.data() + begin, &length, sizeof length);
}

Bytes take_row(Bytes& bytes) {
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
  if (length == 0 || length > bytes.size() - sizeof length) fail(Fault::Internal, "a sample arrived torn");
  const Bytes row = bytes.subspan(sizeof length, length);
  bytes = bytes.subspan(sizeof length + length);
  return row;
}

}  // namespace

HeldSamples held_by(std::int64_t samples, int ranks, int rank) noexcept {
  return {samples * rank / ranks, samples * (rank + 1) / ranks};
}

int holder_of(std::int64_t id, std::int64_t samples, int ranks) noexcept {
  return static_cast<int>(((id + 1) * ranks - 1) / samples);
}

void take_arrived(Bytes row, Sample& sample) {
  const bool good = row.front() == std::byte{1};
  row = row.subspan(1);
  if (!good) fail(Fault::Data, std::string(as_text(row)));
  take_sample(row, sample);
}

Exchange::Exchange(const Dataset& dataset, const Order& order, comm::Communicator& group, const Share& share)
    : dataset_(dataset), order_(order), group_(group) {
  for (const auto& text : group.gather_bytes(std::string(reinterpret_cast<const char*>(&share), sizeof share))) {
    std::memcpy(&shares_.emplace_back(), text.data(), sizeof share);
  }
}

std::optional<Exchange::Arrived> Exchange::round(const Batch& about, bool stopping) {
  const profile::Span span("exchange samples");
  const int ranks = group_.size(), me = group_.rank();
  std::vector<std::string> parcels(static_cast<std::size_t>(ranks));
  std::vector<int> holders;  // of this rank's rows
  if (!stopping) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Share& share = shares_[static_cast<std::size_t>(rank)];
      for (std::int64_t row = share.first(about.global_count); row < share.last(about.global_count); ++row) {
        const std::int64_t id = order_.at(about.epoch, about.position + row);
        const int holder = holder_of(id, dataset_.size(), ranks);
        if (rank == me) holders.push_back(holder);
        if (holder == me) append_row(parcels[static_cast<std::size_t>(rank)], dataset_, id, sample_);
      }
    }
  }
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < sent.size(); ++rank) {
    sent[rank] = stopping ? kStopping : static_cast<std::int64_t>(parcels[rank].size());
  }
  const auto announced = at::tensor(sent, at::kLong), expected = at::empty({ranks}, at::kLong);
  group_.all_to_all(expected, announced, {}, {}, {.name = "samples ahead"}).wait();
  const auto* sizes = expected.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> received(sizes, sizes + ranks);
  if (stopping || std::find(received.begin(), received.end(), kStopping) != received.end()) return std::nullopt;

  const auto out = at::empty({std::accumulate(sent.begin(), sent.end(), std::int64_t{0})}, at::kByte);
  auto* place = out.mutable_data_ptr<std::uint8_t>();
  for (const auto& parcel : parcels) place = std::copy(parcel.begin(), parcel.end(), place);
  Arrived arrived;
  arrived.memory = at::empty({std::accumulate(received.begin(), received.end(), std::int64_t{0})}, at::kByte);
  group_.all_to_all(arrived.memory, out, sent, received, {.name = "samples"}).wait();

  std::vector<Bytes> from;
  const auto* begin = static_cast<const std::byte*>(arrived.memory.const_data_ptr());
  for (const auto size : received) {
    from.emplace_back(begin, static_cast<std::size_t>(size));
    begin += size;
  }
  for (const int holder : holders) arrived.rows.push_back(take_row(from[static_cast<std::size_t>(holder)]));
  return arrived;
}

}  // namespace lockstep::data
