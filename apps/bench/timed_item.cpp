#include "bench/timed_item.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {

std::string to_text(const TimedItem& item) { return fmt::format("{}:{}", item.bytes, item.reps); }

TimedItem parse_item(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() != 2) fail(Fault::Usage, fmt::format("item '{}' is not BYTES:REPS", text));
  const TimedItem item{parse_integer("bytes", parts[0], 4, std::int64_t{1} << 40),
                       static_cast<int>(parse_integer("reps", parts[1], 1, 1'000'000))};
  if (item.bytes % 4 != 0) {
    fail(Fault::Usage, fmt::format("{} bytes are no whole number of float32 values", item.bytes));
  }
  return item;
}

std::string to_line(const TimedCalls& calls) {
  return nlohmann::json{{"bytes", calls.bytes}, {"seconds", calls.seconds}}.dump();
}

std::optional<TimedCalls> parse_line(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("bytes") || !json.contains("seconds")) return std::nullopt;
  try {
    TimedCalls calls{json["bytes"], json["seconds"]};
    if (calls.seconds.empty()) return std::nullopt;
    return calls;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace lockstep::apps
