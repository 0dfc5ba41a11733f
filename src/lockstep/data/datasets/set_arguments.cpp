#include "lockstep/data/datasets/set_arguments.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {

SetArguments::SetArguments(std::string set, const std::string& text) : set_(std::move(set)) {
  for (const auto& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(Fault::Usage, fmt::format("'{}' of the data set {} is not of the form key=value", part, set_));
    }
    if (!given_.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      fail(Fault::Usage, fmt::format("'{}' of the data set {} is given twice", part.substr(0, equals), set_));
    }
  }
}

const std::string* SetArguments::find(const std::string& key) {
  known_.push_back(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

std::string SetArguments::text(const std::string& key, const std::string& fallback) {
  const std::string* text = find(key);
  return text == nullptr ? fallback : *text;
}

std::int64_t SetArguments::integer(const std::string& key, std::int64_t fallback, std::int64_t lowest,
                                   std::int64_t highest) {
  const std::string* text = find(key);
  if (text == nullptr) return fallback;
  return parse_integer(fmt::format("'{}' of the data set {}", key, set_), *text, lowest, highest);
}

double SetArguments::number(const std::string& key, double fallback, double lowest, double highest) {
  const std::string* text = find(key);
  if (text == nullptr) return fallback;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value);
  // Written so that what is no number (nan) fails it too.
  const bool inside = value >= lowest && value <= highest;
  if (code != std::errc() || stop != end || !inside) {
    fail(Fault::Usage, fmt::format("'{}' of the data set {} is '{}', expected a number from {} to {}", key, set_, *text,
                                   lowest, highest));
  }
  return value;
}

void SetArguments::finish() const {
  for (const auto& [key, value] : given_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    fail(Fault::Usage, fmt::format("the data set {} has no '{}'{}", set_, key, proposal(key, known_)));
  }
}

}  // namespace lockstep::data
