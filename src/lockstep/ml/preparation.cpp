#include "lockstep/ml/preparation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"

namespace lockstep::ml {
namespace {

/// Fails unless a column of that name can be moved by `shift` and divided by `scale`: an infinite one would make it 0.
void check_scale(const std::string& name, const std::string& choice, double shift, double scale) {
  if (std::isfinite(shift) && std::isfinite(scale)) return;
  if (choice == "standard") {
    fail(Fault::Data, fmt::format("squares of '{}' are too large for float64; use --scale minmax", name));
  }
  fail(Fault::Data,
       fmt::format("values of '{}' lie too far apart for float64; divide them, or leave it out by --exclude", name));
}

}  // namespace

void PreparationChoice::check() const {
  check_one_of(missing, "missing", {"error", "mean", "drop"});
  check_one_of(scale, "scale", {"none", "standard", "minmax"});
}

void Preparation::learn(const PreparationChoice& choice, const RowLayout& layout,
                        const std::function<Moments()>& moments_of_columns) {
  if (choice.missing != "mean" && choice.scale == "none") return;
  const Moments moments = moments_of_columns();
  check_weight(moments.weight);
  const std::vector<bool> encoded = layout.encoded();
  const std::size_t columns = encoded.size();
  const auto of = [](const at::Tensor& tensor, std::size_t column) { return tensor.const_data_ptr<double>()[column]; };
  if (choice.missing == "mean") {
    for (std::size_t column = 0; column < columns; ++column) {
      if (of(moments.count, column) == 0) {
        fail(Fault::Data, fmt::format("'{}' has no value at all; leave it out by --exclude", layout.names()[column]));
      }
      fill.push_back(of(moments.mean, column));
    }
  }
  if (choice.scale == "none") return;
  for (std::size_t column = 0; column < columns; ++column) {
    double by = 0, to = 1;
    if (!encoded[column] && choice.scale == "minmax") {
      by = of(moments.min, column);
      to = of(moments.max, column) - by;
    } else if (!encoded[column]) {
      // What is filled in adds weight and no squares.
      const double weight = fill.empty() ? of(moments.weights, column) : moments.weight;
      by = of(moments.mean, column);
      to = std::sqrt(of(moments.squares, column) / weight);
    }
    // A column without values is left to whoever names the first that is missing.
    if (of(moments.count, column) > 0) check_scale(layout.names()[column], choice.scale, by, to);
    shift.push_back(by);
    scale.push_back(to > 0 ? to : 1);  // a constant column becomes 0
  }
}

template <class T>
void Preparation::apply(T* x, std::int64_t rows, std::int64_t columns) const {
  if (!changes()) return;
  for (std::int64_t row = 0; row < rows; ++row, x += columns) {
    for (std::size_t column = 0; column < static_cast<std::size_t>(columns); ++column) {
      double value = x[column];
      if (!fill.empty() && std::isnan(value)) value = fill[column];
      if (!scale.empty()) value = (value - shift[column]) / scale[column];
      x[column] = static_cast<T>(value);
    }
  }
}
template void Preparation::apply(float* x, std::int64_t rows, std::int64_t columns) const;
template void Preparation::apply(double* x, std::int64_t rows, std::int64_t columns) const;

std::vector<std::vector<std::int64_t>> Preparation::onehot_columns(const std::vector<std::string>& names) const {
  std::vector<std::vector<std::int64_t>> result;
  for (const auto& field : onehot) {
    auto& columns = result.emplace_back();
    for (const auto& category : categories.at(field)) {
      const auto found = std::find(names.begin(), names.end(), onehot_name(field, category));
      if (found != names.end()) columns.push_back(found - names.begin());
    }
  }
  return result;
}

nlohmann::json Preparation::json() const {
  return {{"fields", fields}, {"onehot", onehot}, {"ordinal", ordinal}, {"categories", categories},
          {"fill", fill},     {"shift", shift},   {"scale", scale}};
}

Preparation Preparation::from(const nlohmann::json& json, std::int64_t columns) {
  Preparation result;
  try {
    json.at("fields").get_to(result.fields);
    json.at("onehot").get_to(result.onehot);
    json.at("ordinal").get_to(result.ordinal);
    json.at("categories").get_to(result.categories);
    json.at("fill").get_to(result.fill);
    json.at("shift").get_to(result.shift);
    json.at("scale").get_to(result.scale);
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("how the model's columns were prepared cannot be read: {}", error.what()));
  }
  for (const auto* values : {&result.fill, &result.shift, &result.scale}) {
    if (!values->empty() && static_cast<std::int64_t>(values->size()) != columns) {
      fail(Fault::Data,
           fmt::format("the model's columns were prepared by {} values, and there are {}", values->size(), columns));
    }
  }
  if (result.shift.size() != result.scale.size()) fail(Fault::Data, "the model's columns have a shift and no scale");
  for (const auto* fields : {&result.onehot, &result.ordinal}) {
    for (const auto& field : *fields) {
      if (result.categories.find(field) == result.categories.end())
        fail(Fault::Data, fmt::format("the model does not say which values '{}' has", field));
    }
  }
  return result;
}

}  // namespace lockstep::ml
