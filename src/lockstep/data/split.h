// lockstep/data/split.h
//
// Cuts a data set into parts at random, the same ones for the same seed: training,
// validation and test, or K folds. Stratified, each part holds of every class the
// share that the whole has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

struct SplitOptions {
  std::vector<double> shares;  // of the parts; they add up to at most 1, what is left over is in none
  std::uint64_t seed = 0;
  std::vector<std::int64_t> classes = {};  // of every sample; empty: not stratified
};

/// The samples of each part, ascending.
std::vector<std::vector<std::int64_t>> split(std::int64_t samples, const SplitOptions& options);
/// K parts of nearly equal size.
std::vector<std::vector<std::int64_t>> folds(std::int64_t samples, int count, const SplitOptions& options);

/// The label of every sample, a text by its place among all that occur; an Error names the sample that
/// has none.
std::vector<std::int64_t> labels_of(const Dataset& dataset, const std::string& field);

}  // namespace lockstep::data
