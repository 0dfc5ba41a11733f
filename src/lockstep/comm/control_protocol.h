// lockstep/comm/control_protocol.h
//
// What travels over the control channel: frames of a length, a type and a text, and
// the texts themselves. No sockets here, so that a fuzzer reaches every reader. A
// reader gives nothing for what no writer of ours wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/error.h"

namespace lockstep::comm::control {

inline constexpr char kHello = 'H', kWelcome = 'W', kBeat = 'B', kAbort = 'A', kGoodbye = 'G';

struct Frame {
  char type = 0;
  std::string payload;
};
std::string to_bytes(const Frame& frame);

/// Cuts what arrives, in pieces of any size, into frames.
class FrameReader {
 public:
  /// A longer frame is not ours.
  static constexpr std::uint32_t kMostPayload = 1 << 20;

  void append(std::string_view bytes) { received_ += bytes; }
  /// The next frame that has come whole.
  std::optional<Frame> next();
  /// Whether something came that is not a frame; nothing comes after it.
  bool broken() const noexcept { return broken_; }

 private:
  std::string received_;
  bool broken_ = false;
};

/// The first frame of a caller.
struct Hello {
  std::uint64_t secret = 0;
  int host = -1;
};
std::string to_text(const Hello& hello);
std::optional<Hello> parse_hello(std::string_view text);

struct Abort {
  int rank = -1;  // -1: not a rank
  int exit_code = exit_code::kFailed;
  Fault fault = Fault::Comm;
  std::string message;
};
std::string to_text(const Abort& abort);
std::optional<Abort> parse_abort(std::string_view text);

struct RankStatus {
  int rank = 0;
  bool waits = false;  // in a collective
  std::string place;   // one line
};
/// One line a rank.
std::string to_text(const std::vector<RankStatus>& statuses);
/// The same in as many texts as it takes for each to fit a frame.
std::vector<std::string> to_texts(const std::vector<RankStatus>& statuses);
/// Lines that are not statuses are left out.
std::vector<RankStatus> parse_statuses(std::string_view text);

}  // namespace lockstep::comm::control
