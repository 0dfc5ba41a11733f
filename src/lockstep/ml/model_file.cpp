#include "lockstep/ml/model_file.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::ml {
namespace {

constexpr const char kFormat[] = "lockstep-ml";
constexpr const char kFieldOfUnnamed[] = "values";

}  // namespace

const at::Tensor& ModelFile::operator[](const std::string& name) const {
  for (const auto& [known, tensor] : tensors) {
    if (known == name) return tensor;
  }
  fail(Fault::Data, fmt::format("the model has no '{}', as one of {} has", name, algorithm));
}

const at::Tensor& ModelFile::by_columns(const std::string& name) const {
  const at::Tensor& tensor = (*this)[name];
  const auto named = static_cast<std::int64_t>(columns.size());
  if (tensor.dim() > 0 && tensor.size(-1) == named) return tensor;
  fail(Fault::Data, fmt::format("the model names {} columns, which are not those of its '{}'", named, name));
}

std::vector<std::string> columns_of(const Table& table) {
  std::vector<std::string> names = table.names();
  if (!names.empty()) return names;
  for (std::int64_t i = 0; i < table.columns(); ++i) names.push_back(fmt::format("{}[{}]", kFieldOfUnnamed, i));
  return names;
}

Preparation preparation_of(const Table& table) {
  Preparation preparation = table.preparation() == nullptr ? Preparation() : *table.preparation();
  if (table.names().empty() && preparation.fields.empty()) preparation.fields = {kFieldOfUnnamed};
  return preparation;
}

ModelFile file_for(const Table& table, std::string algorithm, nlohmann::json parameters, data::NamedTensors tensors) {
  return {.algorithm = std::move(algorithm),
          .parameters = std::move(parameters),
          .columns = columns_of(table),
          .preparation = preparation_of(table),
          .tensors = std::move(tensors)};
}

at::Tensor Predictor::predict_proba(const at::Tensor&) const {
  fail(Fault::Usage, "the model knows no probabilities: those are of classifiers");
}

void write_model(const std::string& path, const ModelFile& model) {
  data::write_safetensors(path, model.tensors,
                          {{"format", kFormat},
                           {"algorithm", model.algorithm},
                           {"parameters", model.parameters.dump()},
                           {"columns", nlohmann::json(model.columns).dump()},
                           {"preparation", model.preparation.json().dump()}});
}

ModelFile read_model(const std::string& path) {
  const data::Safetensors file(path);
  const auto fact = [&](const char* name) {
    const auto found = file.facts().find(name);
    return found == file.facts().end() ? std::string() : found->second;
  };
  if (fact("format") != kFormat) {
    fail(Fault::Data, fmt::format("{} holds tensors, but no model that 'lockstep kmeans' or its like wrote", path));
  }
  ModelFile model;
  model.algorithm = fact("algorithm");
  try {
    model.parameters = nlohmann::json::parse(fact("parameters"));
    model.columns = nlohmann::json::parse(fact("columns")).get<std::vector<std::string>>();
    model.preparation =
        Preparation::from(nlohmann::json::parse(fact("preparation")), static_cast<std::int64_t>(model.columns.size()));
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{}: what it says of its model cannot be read: {}", path, error.what()));
  }
  for (const auto& name : file.names()) model.tensors.push_back({name, file.read(name)});
  return model;
}

}  // namespace lockstep::ml
