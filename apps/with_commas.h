// apps/with_commas.h
//
// Large numbers for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::apps {

/// Of a number from 0 on: "1,199,882".
inline std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

/// "1 column", "1,797 columns"; "1 class", "3 classes".
inline std::string counted(std::int64_t number, const std::string& thing) {
  const std::string many = thing.ends_with('s') || thing.ends_with("ch") ? "es" : "s";
  return with_commas(number) + ' ' + thing + (number == 1 ? "" : many);
}

}  // namespace lockstep::apps
