#include "lockstep/data/arguments.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {

Arguments::Arguments(std::string owner, const std::string& text, char separator) : owner_(std::move(owner)) {
  for (const auto& part : split(text, separator)) {
    if (part.empty() && separator == ' ') continue;  // one may write several
    const auto equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      fail(Fault::Usage, fmt::format("'{}' of {} is not of the form key=value", part, owner_));
    }
    if (!given_.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      fail(Fault::Usage, fmt::format("'{}' of {} is given twice", part.substr(0, equals), owner_));
    }
  }
}

const std::string* Arguments::find(const std::string& key) {
  known_.push_back(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

double Arguments::number_of(const std::string& key, const std::string& text, double lowest, double highest) const {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  // Written so that what is no number (nan) fails it too.
  const bool inside = value >= lowest && value <= highest;
  if (code != std::errc() || stop != end || !inside) {
    fail(Fault::Usage,
         fmt::format("'{}' of {} is '{}', expected a number from {} to {}", key, owner_, text, lowest, highest));
  }
  return value;
}

std::int64_t Arguments::get(const std::string& key, std::int64_t fallback, std::int64_t lowest, std::int64_t highest) {
  const std::string* text = find(key);
  if (text == nullptr) return fallback;
  return parse_integer(fmt::format("'{}' of {}", key, owner_), *text, lowest, highest);
}

double Arguments::get(const std::string& key, double fallback, double lowest, double highest) {
  const std::string* text = find(key);
  return text == nullptr ? fallback : number_of(key, *text, lowest, highest);
}

std::string Arguments::get(const std::string& key, const std::string& fallback) {
  const std::string* text = find(key);
  return text == nullptr ? fallback : *text;
}

std::vector<double> Arguments::get(const std::string& key, const std::vector<double>& fallback, double lowest,
                                   double highest) {
  const std::string* text = find(key);
  if (text == nullptr) return fallback;
  std::vector<double> numbers;
  for (const auto& part : split(*text, ',')) numbers.push_back(number_of(key, part, lowest, highest));
  return numbers;
}

void Arguments::finish() const {
  for (const auto& [key, value] : given_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    fail(Fault::Usage, fmt::format("{} has no '{}'{}", owner_, key, proposal(key, known_)));
  }
}

Arguments arguments_of_set(const std::string& set, const std::string& text) {
  return {"the data set " + set, text, ','};
}

}  // namespace lockstep::data
