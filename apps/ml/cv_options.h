// apps/ml/cv_options.h
//
// Cross-validation on the command line: folds, and a table of how each candidate of a grid
// of parameters did on them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "lockstep/ml/cross_validation.h"

namespace lockstep::apps {

struct CvOptions {
  std::int64_t folds = 0;  // 0: none
  bool shuffle = false;
  std::uint64_t seed = 0;

  void add_to(CLI::App& command);
  /// Fault::Usage if there are several values of an option and no folds to choose by.
  void check(std::size_t values, const char* option) const;

  ml::Folds of_rows(const ml::Table& table) const;
  /// In which each class has its share. A collective.
  ml::Folds of_classes(const ml::Table& table) const;

 private:
  std::optional<std::uint64_t> shuffle_seed() const { return shuffle ? std::optional(seed) : std::nullopt; }
};

/// What came of it.
struct CvChoice {
  std::vector<std::string> parameters;          // {"alpha", "l1_ratio"}
  std::string metric;                           // "R²"
  std::vector<std::vector<double>> candidates;  // values of the parameters
  std::vector<ml::FoldScores> scores;           // of each candidate

  const std::vector<double>& best() const { return candidates[ml::best_of(scores)]; }
  nlohmann::json json() const;
  /// As a table; of many candidates some.
  void print() const;
};

/// By an estimator that is fitted anew for each value and fold, `score` of which it is. A collective.
CvChoice choose_by_fits(
    const ml::Table& table, const ml::Folds& folds, const std::string& parameter, const std::string& metric,
    const std::vector<double>& values,
    const std::function<double(double value, const ml::Table& train, const ml::Table& test)>& score);

}  // namespace lockstep::apps
