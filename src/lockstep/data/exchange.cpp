#include "lockstep/data/exchange.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/sample_wire.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kStopping = -1;

Bytes take_row(Bytes& bytes) {
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
  if (length == 0 || length > bytes.size() - sizeof length) fail(Fault::Internal, "a sample arrived torn");
  const Bytes row = bytes.subspan(sizeof length, length);
  bytes = bytes.subspan(sizeof length + length);
  return row;
}

/// Who holds what, as those said who opened it.
const Holders& holders_among(const comm::Communicator& group, const Dataset& dataset) {
  const Holders* holders = dataset.holders();
  if (holders == nullptr) {
    fail(Fault::Usage,
         "samples can travel between ranks only as open_cached() numbers them with cache = \"cluster\"; for windows, a "
         "split or other views, write what you want to read with 'lockstep pack' and open that, or use cache = "
         "\"node\"");
  }
  if (holders->ranks() != group.size()) {
    fail(Fault::Usage, fmt::format("the data set is held by {} ranks, but its samples are to travel among {}",
                                   holders->ranks(), group.size()));
  }
  return *holders;
}

}  // namespace

void take_arrived(Bytes row, Sample& sample) {
  const bool good = row.front() == std::byte{1};
  row = row.subspan(1);
  if (!good) fail(Fault::Data, std::string(as_text(row)));
  take_sample(row, sample);
}

Exchange::Exchange(const Dataset& dataset, const Order& order, comm::Communicator& group, const Share& share,
                   Position start)
    : dataset_(dataset),
      order_(order),
      group_(group),
      holders_(holders_among(group, dataset)),
      shares_(comm::gather_values(group, std::span(&share, 1))) {
  reader_ = std::thread([this, start] { read_ahead(start); });
}

Exchange::~Exchange() {
  stopping_ = true;
  reader_.join();
}

void Exchange::read_ahead(Position start) const {
  pthread_setname_np(pthread_self(), "lockstep-ahead");
  const HeldSamples held = holders_.held_by(group_.rank());
  std::vector<bool> seen(static_cast<std::size_t>(held.end - held.first));
  auto left = seen.size();
  Scratch scratch;
  const auto read_epoch = [&](std::int64_t epoch, std::int64_t from) {
    for (std::int64_t position = from; position < order_.length() && left > 0 && !stopping_; ++position) {
      const std::int64_t id = order_.at(epoch, position);
      if (id < held.first || id >= held.end) continue;
      const auto place = static_cast<std::size_t>(id - held.first);
      if (seen[place]) continue;
      seen[place] = true;
      --left;
      try {
        dataset_.bring_in(id, scratch);
      } catch (...) {  // who wants it will be told
      }
    }
  };
  read_epoch(start.epoch, start.sample);
  read_epoch(start.epoch + 1, 0);  // what came before the start, in the order in which it is wanted next
}

at::Tensor Exchange::memory_for(std::size_t bytes) const {
  const auto size = static_cast<std::int64_t>(bytes);
  try {
    return group_.empty({size}, at::kByte);
  } catch (const Error&) {  // there is no more of that: any other is a copy slower
    return at::empty({size}, at::kByte);
  }
}

/// That many bytes more, in what travels in this round.
std::byte* Exchange::grow_by(std::size_t bytes) {
  if (!parcels_.defined() || used_ + bytes > static_cast<std::size_t>(parcels_.numel())) {
    const at::Tensor larger = memory_for((used_ + bytes) * 3 / 2);
    if (used_ > 0) std::memcpy(larger.mutable_data_ptr(), parcels_.const_data_ptr(), used_);
    parcels_ = larger;
  }
  auto* const place = static_cast<std::byte*>(parcels_.mutable_data_ptr()) + used_;
  used_ += bytes;
  return place;
}

/// A row on its way: its length, whether it could be read, and the sample or the reason.
void Exchange::put_row(std::int64_t id) {
  std::string reason;
  bool good = true;
  try {
    dataset_.read(id, sample_);
  } catch (const std::exception& error) {
    reason = error.what();
    good = false;
  }
  const std::uint64_t length = 1 + (good ? wire_bytes(sample_) : reason.size());
  std::byte* place = grow_by(sizeof length + length);
  std::memcpy(place, &length, sizeof length);
  place += sizeof length;
  *place++ = std::byte{good};
  if (good)
    put_sample(place, sample_);
  else
    std::memcpy(place, reason.data(), reason.size());
}

std::optional<Exchange::Arrived> Exchange::round(const Batch& about, bool stopping) {
  const profile::Span span("exchange samples");
  const int ranks = group_.size(), me = group_.rank();
  std::vector<int> holders;  // of this rank's rows
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks), stopping ? kStopping : 0);
  used_ = 0;
  for (int rank = 0; rank < ranks && !stopping; ++rank) {
    const Share& share = shares_[static_cast<std::size_t>(rank)];
    const std::size_t before = used_;
    for (std::int64_t row = share.first(about.global_count); row < share.last(about.global_count); ++row) {
      const std::int64_t id = order_.at(about.epoch, about.position + row);
      const int holder = holders_.holder_of(id);
      if (rank == me) holders.push_back(holder);
      if (holder == me) put_row(id);
    }
    sent[static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(used_ - before);
  }
  const auto announced = at::tensor(sent, at::kLong), expected = at::empty({ranks}, at::kLong);
  group_.all_to_all(expected, announced, {}, {}, {.name = "samples ahead"}).wait();
  const auto* sizes = expected.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> received(sizes, sizes + ranks);
  if (stopping || std::find(received.begin(), received.end(), kStopping) != received.end()) return std::nullopt;

  grow_by(0);
  Arrived arrived;
  arrived.memory = at::empty({std::accumulate(received.begin(), received.end(), std::int64_t{0})}, at::kByte);
  const auto parcels = parcels_.narrow(0, 0, static_cast<std::int64_t>(used_));
  group_.all_to_all(arrived.memory, parcels, sent, received, {.name = "samples"}).wait();

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
