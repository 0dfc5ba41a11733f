#include "progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr int kBarWidth = 24;
constexpr std::chrono::milliseconds kOnTerminal{100};
constexpr std::chrono::seconds kInLog{10};

}  // namespace

std::string bar_of(double share) {
  const auto full = static_cast<std::size_t>(share * kBarWidth);
  return '[' + std::string(full, '#') + std::string(kBarWidth - full, '.') + ']';
}

Progress::Progress(std::string what, std::string unit, std::int64_t total)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (terminal_ && any_drawn_) fmt::print(stderr, "\r\033[K");
}

void Progress::add(std::int64_t count) {
  const std::int64_t done = done_ += count;
  const auto now = Clock::now();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || now - drawn_ < (terminal_ ? Clock::duration(kOnTerminal) : Clock::duration(kInLog))) return;
  drawn_ = now;
  any_drawn_ = true;
  draw(done, now);
}

void Progress::draw(std::int64_t done, Clock::time_point now) {
  const double passed_s = std::chrono::duration<double>(now - begun_).count();
  const double rate = static_cast<double>(done) / std::max(passed_s, 1e-9);
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const std::string left = format_seconds(static_cast<double>(total_ - done) / std::max(rate, 1e-9));
  const std::string text = fmt::format("{} of {} {}, {:.0f} a second, {} left", done, total_, unit_, rate, left);
  if (!terminal_) return fmt::print(stderr, "{}: {}\n", what_, text);
  fmt::print(stderr, "\r\033[K{} {} {}", what_, bar_of(share), text);
  std::fflush(stderr);
}

}  // namespace lockstep::apps
