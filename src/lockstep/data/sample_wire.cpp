#include "lockstep/data/sample_wire.h"

#include <cstring>

#include "lockstep/core/error.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMissing = UINT64_MAX;

void put(std::byte*& place, const void* from, std::size_t count) noexcept {
  if (count > 0) std::memcpy(place, from, count);
  place += count;
}

template <class Number>
void put_number(std::byte*& place, Number number) noexcept {
  put(place, &number, sizeof number);
}

Bytes take(Bytes& bytes, std::uint64_t count) {
  if (count > bytes.size()) fail(Fault::Internal, "a sample arrived torn");
  const Bytes part = bytes.first(count);
  bytes = bytes.subspan(count);
  return part;
}

template <class Number>
Number take_number(Bytes& bytes) {
  Number number;
  std::memcpy(&number, take(bytes, sizeof number).data(), sizeof number);
  return number;
}

}  // namespace

std::size_t wire_bytes(const Sample& sample) noexcept {
  std::size_t bytes = sizeof(std::uint32_t);
  for (const auto& value : sample.values) {
    bytes += sizeof(std::uint64_t);
    if (!value.missing) bytes += sizeof(std::uint32_t) + value.shape.size() * sizeof(std::int64_t) + value.bytes.size();
  }
  return bytes;
}

void put_sample(std::byte* place, const Sample& sample) noexcept {
  put_number(place, static_cast<std::uint32_t>(sample.values.size()));
  for (const auto& value : sample.values) {
    put_number(place, value.missing ? kMissing : std::uint64_t{value.bytes.size()});
    if (value.missing) continue;
    put_number(place, static_cast<std::uint32_t>(value.shape.size()));
    for (const auto size : value.shape) put_number(place, size);
    put(place, value.bytes.data(), value.bytes.size());
  }
}

void take_sample(Bytes& bytes, Sample& sample) {
  const auto fields = take_number<std::uint32_t>(bytes);
  if (fields > bytes.size()) fail(Fault::Internal, "a sample arrived torn");
  sample.clear(fields);
  for (auto& value : sample.values) {
    const auto length = take_number<std::uint64_t>(bytes);
    value.missing = length == kMissing;
    if (value.missing) continue;
    const auto dims = take_number<std::uint32_t>(bytes);
    if (dims > bytes.size()) fail(Fault::Internal, "a sample arrived torn");
    for (std::uint32_t dim = 0; dim < dims; ++dim) value.shape.push_back(take_number<std::int64_t>(bytes));
    value.bytes = take(bytes, length);
  }
}

}  // namespace lockstep::data
