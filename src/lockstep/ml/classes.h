// lockstep/ml/classes.h
//
// What classifiers have in common: the classes that the target of a table names, the class
// of each row by number, how many rows a model finds the class of, and the class values and
// names in the model's file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/model_file.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct ClassRows {
  std::vector<std::int32_t> numbers;  // of this rank's rows: the number of its class
  std::vector<double> weights;        // by class: the sum of the weights of all its rows
};

class Classes {
 public:
  /// A target with more different values is none of classes.
  static constexpr std::int64_t kMost = 4096;

  /// The different values of the table's only target, in ascending order. A collective. Fault::Usage if it has no or
  /// several targets, too many values or some that are not whole, Fault::Data if one is not finite.
  static Classes of(const Table& table, int threads);
  /// The same target with these values instead, in any order. Fault::Usage if one is not finite or there twice.
  Classes with_values(std::vector<double> values) const;
  /// As add_to() wrote them. Fault::Data if there are none.
  static Classes from(const ModelFile& file);
  void add_to(ModelFile& file) const;

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(values_.size()); }
  const std::vector<double>& values() const noexcept { return values_; }
  /// What the class stands for, "setosa", where the data says so, else its value.
  std::string name_of(std::int64_t number) const;
  /// What the values 0, 1, … stand for; empty where the data does not say.
  const std::vector<std::string>& value_names() const noexcept { return value_names_; }
  /// The field that they are the values of.
  const std::string& target() const noexcept { return target_; }

  /// The class of each of this rank's rows, by its number; -1: another value.
  std::vector<std::int32_t> numbers(const Table& table, int threads) const;
  /// The same of the table that they are of, and what each class weighs. A collective.
  ClassRows rows(const Table& table, int threads) const;
  /// The values of classes by their numbers, [rows]: int64 if all values are whole, else float64.
  at::Tensor values_of(const at::Tensor& numbers) const;
  bool operator==(const Classes&) const = default;

 private:
  std::vector<double> values_;
  std::vector<std::string> value_names_;
  std::string target_;
};

/// The number of the class of each value, and -1 of others.
class ClassNumbers {
 public:
  explicit ClassNumbers(const std::vector<double>& values);
  std::int32_t operator()(double value) const noexcept;

 private:
  const std::vector<double>& values_;
  std::vector<std::int32_t> of_small_;  // of whole values from 0 on
};

/// The share of rows, by weight, of which `predict` finds the class. It writes the number of the class of each row of a
/// block; any thread calls it. A collective.
double accuracy(const Table& table, const Classes& classes, int threads,
                const std::function<void(const Block& block, std::int32_t* numbers)>& predict);

/// For `lockstep predict`: of a classifier with from(), classes(), predict() and predict_proba().
template <class Classifier>
class ClassPredictor final : public Predictor {
 public:
  explicit ClassPredictor(const ModelFile& model) : classifier_(Classifier::from(model)) {}
  at::Tensor predict(const at::Tensor& x) const override { return classifier_.predict(x); }
  std::vector<std::string> outputs() const override { return {classifier_.classes().target()}; }
  std::vector<std::string> value_names() const override { return classifier_.classes().value_names(); }
  at::Tensor predict_proba(const at::Tensor& x) const override { return classifier_.predict_proba(x); }
  std::vector<std::string> proba_outputs() const override {
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < classifier_.classes().count(); ++i) names.push_back(classifier_.classes().name_of(i));
    return names;
  }

 private:
  Classifier classifier_;
};

}  // namespace lockstep::ml
