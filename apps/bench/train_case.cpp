#include "bench/train_case.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/datasets/memory_dataset.h"

namespace lockstep::apps {
namespace {

constexpr std::int64_t kClasses = 10, kTokens = 256;

data::Schema images(std::int64_t channels, std::int64_t size) {
  return {{.name = "input", .type = at::kFloat, .shape = {channels, size, size}},
          {.name = "label", .type = at::kLong, .shape = {}}};
}

const std::vector<TrainCase>& cases() {
  static const std::vector<TrainCase> all = {
      {"mlp", "model = {name = 'mlp', hidden = [4096, 4096]}\ntask = {classes = 10}", 128, images(1, 28), 0},
      {"cnn", "model = {name = 'mnist_cnn', dropout = 0.0}\ntask = {classes = 10}", 64, images(1, 28), 0},
      {"resnet18", "model = {name = 'resnet18'}\ntask = {classes = 10}", 8, images(3, 32), 0},
      {"lstm",
       "model = {name = 'lstm', width = 64, hidden = 256, layers = 2}\n"
       "task = {name = 'next_token', vocabulary = 256}",
       32,
       {{.name = "input", .type = at::kLong, .shape = {65}}},
       kTokens},
  };
  return all;
}

/// `count` values of a field.
std::string random_column(const data::Field& field, std::int64_t count, std::int64_t below, std::mt19937& generator) {
  if (field.type == at::kFloat) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    std::normal_distribution<float> normal;
    std::generate(numbers.begin(), numbers.end(), [&] { return normal(generator); });
    return data::column_of(numbers);
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::uniform_int_distribution<std::int64_t> any(0, below - 1);
  std::generate(numbers.begin(), numbers.end(), [&] { return any(generator); });
  return data::column_of(numbers);
}

}  // namespace

const std::vector<std::string>& train_case_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> result;
    for (const auto& one : cases()) result.push_back(one.name);
    return result;
  }();
  return names;
}

const TrainCase& train_case(const std::string& name) {
  const auto found = std::find_if(cases().begin(), cases().end(), [&](const auto& one) { return one.name == name; });
  if (found == cases().end()) {
    fail(Fault::Usage, fmt::format("no model '{}' to measure{}", name, proposal(name, train_case_names())));
  }
  return *found;
}

data::DatasetPtr data_of(const TrainCase& one, std::int64_t samples) {
  std::mt19937 generator(1);
  std::vector<std::string> columns;
  for (const auto& field : one.schema) {
    const std::int64_t below = field.name == "label" ? kClasses : one.values;
    columns.push_back(random_column(field, one.batch * field.elements(), below, generator));
  }
  std::vector<std::int64_t> again(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < again.size(); ++i) again[i] = static_cast<std::int64_t>(i) % one.batch;
  return data::subset(data::memory_dataset(one.name, one.schema, std::move(columns)), std::move(again));
}

}  // namespace lockstep::apps
