#include "lockstep/data/transform.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::data {

Pipeline::Pipeline(const Schema& input, const std::vector<std::string>& steps) : schema_(input) {
  for (const auto& step : steps) {
    auto words = split(step, ' ');
    std::erase(words, "");  // one may write several blanks
    if (words.empty()) fail(Fault::Usage, "an empty transform");
    const std::string& name = words[0];
    const bool names_field = words.size() > 1 && words[1].find('=') == std::string::npos;
    if (!names_field && schema_.size() != 1) {
      fail(Fault::Usage, fmt::format("'{}' does not say of which field: '{} {} …'", step, name, schema_.at(0).name));
    }
    const std::size_t place = names_field ? place_of(schema_, words[1]) : 0;
    const std::vector<std::string> rest(words.begin() + (names_field ? 2 : 1), words.end());
    Arguments arguments(fmt::format("the transform '{}'", step), join(rest, " "), ' ');
    auto transform = TransformRegistry::instance().at("transform", name)(schema_[place], arguments);
    arguments.finish();
    schema_[place] = transform->output();
    steps_.push_back({step, place, std::move(transform)});
  }
}

std::vector<std::string> Pipeline::without_chance() const {
  std::vector<std::string> result;
  for (const auto& step : steps_) {
    const auto other = step.transform->without_chance();
    if (!other) result.push_back(step.text);
    if (!other || other->empty()) continue;
    const std::size_t begin = step.text.find_first_not_of(' '), end = step.text.find(' ', begin);
    result.push_back(*other + (end == std::string::npos ? "" : step.text.substr(end)));
  }
  return result;
}

void Pipeline::apply(Sample& sample, std::uint64_t key, std::int64_t id) const {
  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const Step& step = steps_[number];
    Value& value = sample.values[step.field];
    if (value.missing) continue;
    Random random(mix(key, number), static_cast<std::uint64_t>(id));
    try {
      step.transform->apply(value, random, sample.scratch);
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      fail(Fault::Data, fmt::format("'{}' failed: {}", step.text, current_error().message()));
    }
  }
}

}  // namespace lockstep::data
