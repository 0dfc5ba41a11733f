#include "lockstep/data/formats/hdf5_heap.h"

#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data::hdf5 {
namespace {

constexpr std::string_view kMagic("GCOL\1", 5);  // with its version
constexpr std::uint64_t kHeadBytes = 16;
constexpr std::uint64_t kObjectHeadBytes = 16;

template <class Number>
Number number_at(Bytes bytes, std::size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace

Extent GlobalHeap::find(Bytes reference, std::uint64_t element_bytes) {
  const auto length = number_at<std::uint32_t>(reference, 0);
  if (length == 0) return {kInIndex, 0, 0};
  const auto address = number_at<std::uint64_t>(reference, 4);
  const auto number = number_at<std::uint32_t>(reference, 12);
  const Objects& objects = collection(address);
  const auto object = objects.find(number);
  if (object == objects.end()) {
    fail(Fault::Data, fmt::format("the heap at byte {} has no value {}", address + base_, number));
  }
  const std::uint64_t bytes = length * element_bytes;
  if (bytes > object->second.length) {
    fail(Fault::Data, fmt::format("value {} of the heap at byte {} has {} bytes instead of {}", number, address + base_,
                                  object->second.length, bytes));
  }
  return {0, object->second.offset, bytes};
}

const GlobalHeap::Objects& GlobalHeap::collection(std::uint64_t address) {
  const auto known = collections_.find(address);
  if (known != collections_.end()) return known->second;
  if (address > file_.size() || base_ > file_.size() - address) {
    fail(Fault::Data, fmt::format("a value lies at byte {} of a file that has {}", address, file_.size()));
  }
  return collections_.emplace(address, parse(address + base_)).first->second;
}

GlobalHeap::Objects GlobalHeap::parse(std::uint64_t offset) {
  Scratch scratch;
  const Bytes head = file_.read(offset, kHeadBytes, scratch);
  if (!as_text(head).starts_with(kMagic)) fail(Fault::Data, fmt::format("there is no heap at byte {}", offset));
  const auto size = number_at<std::uint64_t>(head, 8);
  // Sound collections do not overlap: so a torn file costs no more than its size.
  if (size < kHeadBytes || size > file_.size() - parsed_bytes_) {
    fail(Fault::Data, fmt::format("the heap at byte {} claims {} bytes", offset, size));
  }
  parsed_bytes_ += size;
  const Bytes bytes = file_.read(offset, size, scratch);
  Objects objects;
  for (std::uint64_t place = kHeadBytes; place + kObjectHeadBytes <= size;) {
    const auto number = number_at<std::uint16_t>(bytes, place);
    if (number == 0) break;  // the free space at the end
    const auto length = number_at<std::uint64_t>(bytes, place + 8);
    place += kObjectHeadBytes;
    if (length > size - place) {
      fail(Fault::Data, fmt::format("value {} of the heap at byte {} claims {} bytes", number, offset, length));
    }
    objects[number] = {0, offset + place, length};
    place += (length + 7) / 8 * 8;
  }
  return objects;
}

}  // namespace lockstep::data::hdf5
