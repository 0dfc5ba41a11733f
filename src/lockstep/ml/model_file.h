// lockstep/ml/model_file.h
//
// A fitted model in one file: its tensors in safetensors, and beside them what it is, the
// parameters it was made with and the columns it was fitted to. docs/ml.md shows how Python
// makes the scikit-learn object of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/registry.h"
#include "lockstep/data/safetensors.h"
#include "lockstep/ml/preparation.h"

namespace lockstep::ml {

struct ModelFile {
  std::string algorithm;
  nlohmann::json parameters = nlohmann::json::object();
  std::vector<std::string> columns = {};
  Preparation preparation = {};  // of the columns, before the model sees them
  data::NamedTensors tensors = {};

  /// Fault::Data if there is none of that name.
  const at::Tensor& operator[](const std::string& name) const;
  /// The same of one whose last dimension is the columns. Fault::Data if it has others.
  const at::Tensor& by_columns(const std::string& name) const;
  /// A parameter, or `otherwise` if it has none of that name. Fault::Data if it is of another type.
  template <class T>
  T parameter(const char* name, const T& otherwise) const {
    try {
      return parameters.value(name, otherwise);
    } catch (const nlohmann::json::exception&) {
      fail(Fault::Data, fmt::format("the model's '{}' cannot be what it says: {}", name, parameters.dump()));
    }
  }
  /// Of a data set, that the model's columns come from.
  const std::vector<std::string>& fields() const noexcept {
    return preparation.fields.empty() ? columns : preparation.fields;
  }
};

/// What a file calls the columns of the table that a model was fitted to, and how they were prepared. Columns of a
/// table without names are those of the field "values", as rows of a .npy file are called: values[0], values[1], …
std::vector<std::string> columns_of(const Table& table);
Preparation preparation_of(const Table& table);
/// The file of a model that was fitted to the table.
ModelFile file_for(const Table& table, std::string algorithm, nlohmann::json parameters, data::NamedTensors tensors);

/// As a whole or not at all.
void write_model(const std::string& path, const ModelFile& model);
/// Fault::Data if it is no model of ours.
ModelFile read_model(const std::string& path);

/// What a fitted model says of rows.
class Predictor {
 public:
  virtual ~Predictor() = default;
  /// Of each row, [rows] or [rows, outputs]. `x` is float32 or float64 [rows, columns].
  virtual at::Tensor predict(const at::Tensor& x) const = 0;
  /// What each output is called: "label", "price" …
  virtual std::vector<std::string> outputs() const = 0;
  /// What the values 0, 1, … of the only output stand for, if they are labels.
  virtual std::vector<std::string> value_names() const { return {}; }

  /// The probability of each class, float64 [rows, classes], and what the classes are called. Fault::Usage if the model
  /// has none.
  virtual at::Tensor predict_proba(const at::Tensor& x) const;
  virtual std::vector<std::string> proba_outputs() const { return {}; }
};

/// By algorithm.
using PredictorRegistry = Registry<std::unique_ptr<Predictor>(const ModelFile& model)>;

}  // namespace lockstep::ml
