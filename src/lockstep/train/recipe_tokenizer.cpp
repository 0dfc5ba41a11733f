#include "lockstep/train/recipe_tokenizer.h"

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/core/text.h"

namespace lockstep::train {
namespace {

/// Of key=value.
std::optional<std::string> value_of(const std::vector<std::string>& words, std::string_view key) {
  for (const auto& word : words) {
    if (word.starts_with(key) && word.size() > key.size() && word[key.size()] == '=')
      return word.substr(key.size() + 1);
  }
  return std::nullopt;
}

constexpr const char kUsual[] = "bytes";

}  // namespace

std::string tokenizer_of(const Config& recipe) {
  for (const char* key : {"data.prepare", "data.transforms"}) {
    for (const auto& step : recipe.get(key, std::vector<std::string>{})) {
      const auto words = split(step, ' ');
      if (!words.empty() && words.front() == "tokenise") return value_of(words, "tokenizer").value_or(kUsual);
    }
  }
  const std::string source = recipe.get("data.train", "");
  const auto colon = source.find(':');
  if (colon == std::string::npos) return "";
  const auto settings = split(source.substr(colon + 1), ',');
  if (!value_of(settings, "window")) return "";
  return value_of(settings, "tokenizer").value_or(kUsual);
}

}  // namespace lockstep::train
