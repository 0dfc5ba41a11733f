#include "lockstep/data/record_frames.h"

#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/crc32c.h"
#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

using Length = std::uint64_t;
using Sum = std::uint32_t;
constexpr std::size_t kHead = sizeof(Length) + sizeof(Sum);

template <class Number>
Number number_at(Bytes bytes, std::uint64_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

// TFRecord stores sums masked: the sum of data that holds sums is weak.
Sum masked_sum(Bytes bytes) noexcept {
  const Sum sum = crc32c(bytes);
  return (sum >> 15 | sum << 17) + 0xA282EAD8;
}

template <class Number>
void append(std::string& text, Number number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

bool begins_with_frame(Bytes head) noexcept {
  return head.size() >= kHead && masked_sum(head.first(sizeof(Length))) == number_at<Sum>(head, sizeof(Length));
}

std::optional<Frame> FrameReader::next() {
  if (at_ == file_.size()) return std::nullopt;
  const Bytes rest = file_.subspan(at_);
  const auto where = [&] { return fmt::format("record {} at byte {}", record_, at_); };
  if (rest.size() < kHead) {
    fail(Fault::Data, fmt::format("{} is cut short: {} bytes are left, its head has {}", where(), rest.size(), kHead));
  }
  if (!begins_with_frame(rest)) {
    fail(Fault::Data,
         fmt::format("{} is corrupt, or this is no TFRecord file: the checksum of its length is wrong", where()));
  }
  const auto length = number_at<Length>(rest, 0);
  const std::uint64_t room = rest.size() - kHead;
  if (room < sizeof(Sum) || length > room - sizeof(Sum)) {
    fail(Fault::Data,
         fmt::format("{} is cut short: it has {} bytes and a checksum, but {} bytes are left", where(), length, room));
  }
  const Frame frame = {at_ + kHead, rest.subspan(kHead, length)};
  if (masked_sum(frame.data) != number_at<Sum>(rest, kHead + length)) {
    fail(Fault::Data, fmt::format("{} is corrupt: the checksum of its {} bytes is wrong", where(), length));
  }
  at_ += kHead + length + sizeof(Sum);
  ++record_;
  return frame;
}

std::string framed(Bytes data) {
  std::string frame;
  frame.reserve(kHead + data.size() + sizeof(Sum));
  append(frame, static_cast<Length>(data.size()));
  append(frame, masked_sum(as_bytes(frame)));
  frame.append(as_text(data));
  append(frame, masked_sum(data));
  return frame;
}

}  // namespace lockstep::data
