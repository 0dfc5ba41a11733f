// apps/ml/cv_options.h
//
// Cross-validation on the command line: folds, and a table of how each of several values of
// a parameter did on them.
#pragma once

#include <cstdint>
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
  std::optional<std::uint64_t> shuffle_seed() const { return shuffle ? std::optional(seed) : std::nullopt; }
  /// Fault::Usage if there are several values and no folds to choose by.
  void check(const std::vector<double>& values, const char* option) const;
};

/// What came of it.
struct CvChoice {
  std::string parameter;  // "alpha"
  std::string metric;     // "R²"
  std::vector<double> values;
  std::vector<ml::FoldScores> scores;  // of each value

  double best() const { return values[ml::best_of(scores)]; }
  nlohmann::json json() const;
  /// As a table; of many values some.
  void print() const;
};

}  // namespace lockstep::apps
