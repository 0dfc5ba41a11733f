#include "lockstep/data/transform.h"

#include <charconv>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {
namespace {

double number_of(const std::string& owner, const std::string& key, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != 0) fail(Fault::Usage, fmt::format("{}: {}={} is not a number", owner, key, text));
  return number;
}

}  // namespace

Arguments::Arguments(std::string owner, const std::string& text) : owner_(std::move(owner)) {
  for (const auto& word : split(text, ' ')) {
    if (word.empty()) continue;
    const auto equals = word.find('=');
    if (equals == std::string::npos) fail(Fault::Usage, fmt::format("{}: '{}' is not key=value", owner_, word));
    values_[word.substr(0, equals)] = word.substr(equals + 1);
  }
}

const std::string* Arguments::find(const std::string& key) {
  asked_[key] = true;
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::int64_t Arguments::get(const std::string& key, std::int64_t fallback) {
  const auto* text = find(key);
  return text == nullptr ? fallback : parse_integer(owner_ + ": " + key, *text, INT64_MIN, INT64_MAX);
}

double Arguments::get(const std::string& key, double fallback) {
  const auto* text = find(key);
  return text == nullptr ? fallback : number_of(owner_, key, *text);
}

std::string Arguments::get(const std::string& key, const std::string& fallback) {
  const auto* text = find(key);
  return text == nullptr ? fallback : *text;
}

std::vector<double> Arguments::get(const std::string& key, const std::vector<double>& fallback) {
  const auto* text = find(key);
  if (text == nullptr) return fallback;
  std::vector<double> numbers;
  for (const auto& part : split(*text, ',')) numbers.push_back(number_of(owner_, key, part));
  return numbers;
}

void Arguments::finish() const {
  std::vector<std::string> known;
  for (const auto& [key, asked] : asked_) known.push_back(key);
  for (const auto& [key, value] : values_) {
    if (!asked_.contains(key))
      fail(Fault::Usage, fmt::format("{}: unknown key '{}'{}", owner_, key, proposal(key, known)));
  }
}

Pipeline::Pipeline(const Schema& input, const std::vector<std::string>& steps) : schema_(input) {
  for (const auto& step : steps) {
    const auto words = split(step, ' ');
    if (words.empty() || words[0].empty()) fail(Fault::Usage, "an empty transform");
    const std::string& name = words[0];
    const bool names_field = words.size() > 1 && words[1].find('=') == std::string::npos;
    if (!names_field && schema_.size() != 1) {
      fail(Fault::Usage, fmt::format("'{}' does not say of which field: '{} {} …'", step, name, schema_.at(0).name));
    }
    const std::size_t place = names_field ? place_of(schema_, words[1]) : 0;
    const std::size_t used = name.size() + (names_field ? 1 + words[1].size() : 0);
    Arguments arguments(fmt::format("transform '{}'", step), step.substr(used));
    auto transform = TransformRegistry::instance().at("transform", name)(schema_[place], arguments);
    arguments.finish();
    schema_[place] = transform->output();
    steps_.push_back({place, std::move(transform)});
  }
}

void Pipeline::apply(Sample& sample, std::uint64_t key, std::int64_t id) const {
  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const Step& step = steps_[number];
    Value& value = sample.values[step.field];
    if (value.missing) continue;
    Random random(mix(key, number), static_cast<std::uint64_t>(id));
    step.transform->apply(value, random, sample.scratch);
  }
}

}  // namespace lockstep::data
