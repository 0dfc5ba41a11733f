#include "bench/parallel_case.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

#include <ATen/ops/empty.h>
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "bench/nameless_file.h"
#include "lockstep/core/config.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/models/model.h"
#include "lockstep/parallel/module_parameters.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

/// As the recipe of a run makes it, whose seed is 0.
std::unique_ptr<models::Model> model_of(const ParallelGpt& gpt, bool tied, const models::ModelCut& cut = {}) {
  Config recipe = Config::from_text(gpt.train_case().recipe);
  recipe.set(fmt::format("model.tied={}", tied));
  return models::make_model("gpt", recipe, "model", {{gpt.context}, gpt.vocabulary}, 0, cut);
}

at::Tensor tokens_of(const TrainCase& one) {
  const auto set = data_of(one, one.batch);
  at::Tensor tokens = at::empty({one.batch, one.schema[0].elements()}, at::kLong);
  data::Sample sample;
  for (std::int64_t row = 0; row < one.batch; ++row) {
    set->read(row, sample);
    const auto& bytes = sample.values[0].bytes;
    std::memcpy(tokens[row].mutable_data_ptr(), bytes.data(), bytes.size());
  }
  return tokens;
}

}  // namespace

void ParallelGpt::add_options(CLI::App& command) {
  const auto add = [&](const char* name, std::int64_t& value, const char* what) {
    command.add_option(name, value, what)->check(whole_from(1))->capture_default_str();
  };
  add("--width", width, "Of the GPT");
  add("--layers", layers, "Of the GPT");
  add("--heads", heads, "Of the GPT");
  add("--context", context, "Tokens of a sample");
  add("--vocabulary", vocabulary, "Different tokens");
  add("--batch", batch, "Samples of a step, of all ranks together");
}

std::vector<std::string> ParallelGpt::arguments() const {
  return {"--width",      std::to_string(width),      "--layers",  std::to_string(layers),
          "--heads",      std::to_string(heads),      "--context", std::to_string(context),
          "--vocabulary", std::to_string(vocabulary), "--batch",   std::to_string(batch)};
}

TrainCase ParallelGpt::train_case() const {
  return {
      "gpt",
      fmt::format("model = {{name = 'gpt', width = {}, layers = {}, heads = {}, context = {}}}\n"
                  "task = {{name = 'next_token', vocabulary = {}}}\n"
                  "optimizer = {{name = 'adamw', lr = 0.001, betas = [0.9, 0.999], eps = 1e-8, weight_decay = 0.01}}\n",
                  width, layers, heads, context, vocabulary),
      batch,
      {{.name = "input", .type = at::kLong, .shape = {context + 1}}},
      vocabulary};
}

std::vector<std::size_t> ParallelGpt::cuts(int stages) const {
  return model_of(*this, false, {.stages = stages})->cuts;
}

FileDescriptor ParallelGpt::start(bool tied) const {
  data::NamedTensors tensors = {{"tokens", tokens_of(train_case())}};
  const auto model = model_of(*this, tied);
  for (const auto& parameter : parallel::parameters_of(model->module())) {
    tensors.push_back({parameter.name, parameter.tensor});
  }
  return nameless_file("parallel", [&](const std::string& path) { data::write_safetensors(path, tensors); });
}

std::vector<std::string> ParallelCase::settings(int ranks, int micro_batches) const {
  if (!schedule.empty()) {
    return {fmt::format("parallel.pipe={}", ranks), "parallel.schedule=" + schedule,
            fmt::format("accumulate={}", micro_batches), "model.tied=false"};
  }
  constexpr std::string_view kZero = "zero";
  if (name.starts_with(kZero)) return {"parallel.zero=" + name.substr(kZero.size())};
  return {fmt::format("parallel.{}={}", name, ranks)};
}

const std::vector<std::string>& parallel_case_names() {
  static const std::vector<std::string> names = {"zero1", "zero2", "zero3", "tensor", "pipe"};
  return names;
}

std::vector<ParallelCase> parallel_cases(const std::string& name) {
  const auto& names = parallel_case_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    fail(Fault::Usage, fmt::format("no case '{}' to measure{}", name, proposal(name, names)));
  }
  if (name == "pipe") return {{name, "1f1b"}, {name, "gpipe"}};
  return {{name, ""}};
}

}  // namespace lockstep::apps
