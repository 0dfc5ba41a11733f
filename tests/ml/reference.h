// tests/ml/reference.h
//
// Lockstep's classical machine learning beside scikit-learn's. An algorithm has two files in
// reference/: NAME.py fits scikit-learn to the cases of cases.py, NAME.cpp fits ours and says
// how much they may differ.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "lockstep/ml/table.h"

namespace lockstep::test {

/// What scikit-learn came to with some parameters.
struct Said {
  nlohmann::json parameters;
  std::map<std::string, at::Tensor> tensors = {};

  const at::Tensor& operator[](const std::string& name) const { return tensors.at(name); }
};

struct ReferenceCase {
  std::string name;
  ml::TableRows rows;  // x, targets and perhaps weights
  at::Tensor labels;   // int64 [rows]: the class of each
  std::vector<Said> said;

  bool is_float32() const { return rows.x.scalar_type() == at::kFloat; }
};

/// The norm of what tensors differ by, relative to that of scikit-learn's; infinite if they differ in shape.
double difference(const at::Tensor& ours, const at::Tensor& theirs);
/// Of "intercept" beside "coef", relative to the terms of which it is what is left: it may itself be near 0.
double difference_of_intercepts(const at::Tensor& ours, const Said& said, const at::Tensor& x);
/// Of a number, which comes as a tensor of one.
double difference(double ours, const at::Tensor& theirs);

/// The largest of each kind, which are printed in the end.
class Differences {
 public:
  /// Expects it to be so.
  void at_most(double bound, const std::string& what, double difference);
  std::string text() const;

 private:
  std::map<std::string, double> largest_;
};

enum class Cases { SetsAndSeeds, Flights };

/// Fits ours on so many ranks, as threads, and compares.
using Compare = std::function<void(const ReferenceCase& one, const Said& said, int ranks, Differences& differences)>;

/// All that reference/ALGORITHM.py says, each on 1 and on 2 or 3 ranks. Skips the test if scikit-learn or the flights
/// are not on this machine.
void compare_with_sklearn(const std::string& algorithm, Cases cases, const Compare& compare);

}  // namespace lockstep::test
