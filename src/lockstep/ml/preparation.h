// lockstep/ml/preparation.h
//
// What is done to the columns of a table before an algorithm sees them: values become
// columns or numbers (row_layout.h), gaps are filled in, columns are scaled. It is learnt
// from the rows that a model is fitted to, goes into the model's file, and is done again to
// the rows of which the model says something.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "lockstep/ml/moments.h"
#include "lockstep/ml/row_layout.h"

namespace lockstep::ml {

/// What the user chose.
struct PreparationChoice {
  std::string missing = "error";  // "mean": stands for values that are missing; "drop": leaves their rows out
  std::string scale = "none";     // "standard": mean 0 and variance 1; "minmax": from 0 to 1

  /// Fault::Usage on others.
  void check() const;
};

struct Preparation {
  std::vector<std::string> fields = {};  // that the columns come from; empty: each column is a field
  std::vector<std::string> onehot = {}, ordinal = {};
  Categories categories = {};
  std::vector<double> fill = {};               // by column, for what is missing; empty: nothing is filled in
  std::vector<double> shift = {}, scale = {};  // by column: x becomes (x - shift) / scale; empty: x stays

  /// Takes fill, shift and scale from the moments of the columns, which are asked for if any is wanted. Columns that
  /// are encoded are not scaled. Fault::Data if a column that is to be filled in has no value, if one is too large to
  /// be scaled, or if no row weighs anything.
  void learn(const PreparationChoice& choice, const RowLayout& layout,
             const std::function<Moments()>& moments_of_columns);
  /// Fills in and scales [rows, columns].
  template <class T>
  void apply(T* x, std::int64_t rows, std::int64_t columns) const;
  /// Of columns by their names, those that each field of `onehot` became: they sum up to 1 in every row.
  std::vector<std::vector<std::int64_t>> onehot_columns(const std::vector<std::string>& names) const;
  /// Whether apply() does anything.
  bool changes() const noexcept { return !fill.empty() || !scale.empty(); }

  nlohmann::json json() const;
  /// Fault::Data if it is none, or of another number of columns.
  static Preparation from(const nlohmann::json& json, std::int64_t columns);
};

}  // namespace lockstep::ml
