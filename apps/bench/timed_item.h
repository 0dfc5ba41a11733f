// apps/bench/timed_item.h
//
// The calling convention of every all-reduce program, ours and the peers': items
// "BYTES:REPS" on the command line, for each one line of JSON on standard output,
// {"bytes": …, "seconds": [… every timed call, its slowest rank …]}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::apps {

struct TimedItem {
  std::int64_t bytes = 0;
  int reps = 0;
};
std::string to_text(const TimedItem& item);
TimedItem parse_item(const std::string& text);

struct TimedCalls {
  std::int64_t bytes = 0;
  std::vector<double> seconds;
};
std::string to_line(const TimedCalls& calls);
/// Nothing for a line that is not of this form: launchers mix in words of their own.
std::optional<TimedCalls> parse_line(const std::string& line);

}  // namespace lockstep::apps
