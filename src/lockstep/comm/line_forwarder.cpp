#include "lockstep/comm/line_forwarder.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace lockstep::comm {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 20;

}  // namespace

LineForwarder::LineForwarder(FileDescriptor from, Outlet& to, std::string prefix)
    : from_(std::move(from)), to_(to), prefix_(std::move(prefix)) {
  fcntl(from_.get(), F_SETFL, O_NONBLOCK);
}

bool LineForwarder::take() {
  if (ended() || to_.full()) return false;
  std::array<char, 65536> chunk;
  const ssize_t got = read(from_.get(), chunk.data(), chunk.size());
  if (got > 0) {
    text_.append(chunk.data(), static_cast<std::size_t>(got));
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) from_.reset();
  return false;
}

void LineForwarder::pass_on() {
  const std::size_t last = text_.find_last_of("\r\n");
  std::size_t complete = last == std::string::npos ? 0 : last + 1;
  if (ended() || text_.size() - complete >= kLongestLine) complete = text_.size();
  if (complete == 0) return;
  const std::string_view lines = std::string_view(text_).substr(0, complete);
  if (prefix_.empty()) {
    to_.put(lines);
  } else {
    to_.put(with_prefix(lines));
  }
  if (to_.closed()) from_.reset();
  text_.erase(0, complete);
}

std::string LineForwarder::with_prefix(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool second_half_of_end = c == '\n' && after_return_;
    if (at_start_ && !second_half_of_end) result += prefix_;
    result += c;
    at_start_ = c == '\n' || c == '\r';
    after_return_ = c == '\r';
  }
  // Else the next line of another process would stand behind it.
  if (ended() && !at_start_) result += '\n';
  return result;
}

}  // namespace lockstep::comm
