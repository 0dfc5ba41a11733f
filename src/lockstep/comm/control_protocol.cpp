#include "lockstep/comm/control_protocol.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::comm::control {
namespace {

constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t) + 1;

/// Takes a number and the one space or the end behind it off the front of `text`.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || (stopped != end && *stopped != ' ')) return false;
  text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(stopped - text.data()) + 1));
  return true;
}

}  // namespace

std::string to_bytes(const Frame& frame) {
  const auto length = static_cast<std::uint32_t>(frame.payload.size());
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += frame.type;
  return bytes + frame.payload;
}

std::optional<Frame> FrameReader::next() {
  if (broken_ || received_.size() < kHeaderBytes) return std::nullopt;
  std::uint32_t length;
  std::memcpy(&length, received_.data(), sizeof length);
  if (length > kMostPayload) {
    broken_ = true;
    return std::nullopt;
  }
  if (received_.size() < kHeaderBytes + length) return std::nullopt;
  Frame frame{received_[sizeof length], received_.substr(kHeaderBytes, length)};
  received_.erase(0, kHeaderBytes + length);
  return frame;
}

std::string to_text(const Hello& hello) { return fmt::format("{} {}", hello.secret, hello.host); }

std::optional<Hello> parse_hello(std::string_view text) {
  Hello hello;
  if (!take(text, hello.secret) || !take(text, hello.host) || !text.empty()) return std::nullopt;
  return hello;
}

std::string to_text(const Abort& abort) {
  return fmt::format("{} {} {} {}", abort.rank, abort.exit_code, static_cast<int>(abort.fault), abort.message);
}

std::optional<Abort> parse_abort(std::string_view text) {
  Abort abort;
  int fault = 0;
  if (!take(text, abort.rank) || !take(text, abort.exit_code) || !take(text, fault)) return std::nullopt;
  // An abort that ends a run with "done" would hide it.
  if (abort.rank < -1 || abort.exit_code < 1 || abort.exit_code > 255) return std::nullopt;
  if (fault < 0 || fault > static_cast<int>(Fault::Internal)) return std::nullopt;
  abort.fault = static_cast<Fault>(fault);
  abort.message = text;
  return abort;
}

std::string to_text(const std::vector<RankStatus>& statuses) {
  std::string text;
  for (const auto& status : statuses) {
    std::string place = status.place;
    std::replace(place.begin(), place.end(), '\n', ' ');
    text += fmt::format("{} {} {}\n", status.rank, status.waits ? 1 : 0, place);
  }
  return text;
}

std::vector<std::string> to_texts(const std::vector<RankStatus>& statuses) {
  std::vector<std::string> texts(1);
  for (const auto& status : statuses) {
    const std::string line = to_text({status});
    if (texts.back().size() + line.size() > FrameReader::kMostPayload) texts.emplace_back();
    texts.back() += line;
  }
  return texts;
}

std::vector<RankStatus> parse_statuses(std::string_view text) {
  std::vector<RankStatus> statuses;
  for (const auto& line : split(text, '\n')) {
    std::string_view left = line;
    RankStatus status;
    int waits = 0;
    if (!take(left, status.rank) || !take(left, waits) || status.rank < 0 || waits < 0 || waits > 1) continue;
    status.waits = waits == 1;
    status.place = left;
    statuses.push_back(std::move(status));
  }
  return statuses;
}

}  // namespace lockstep::comm::control
