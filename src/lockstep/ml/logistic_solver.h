// lockstep/ml/logistic_solver.h
//
// Coefficients of least logistic loss: by Newton's method, or by L-BFGS in unknowns in which
// the loss curves alike in all directions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/ml/linear_model.h"
#include "lockstep/ml/logistic_loss.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// After each iteration.
struct LogisticPass {
  std::int64_t iteration = 0;
  double loss = 0;      // the mean, penalty included
  double gradient = 0;  // its largest component
};

struct LogisticSearch {
  /// "newton-cholesky", "lbfgs", or "auto": the first where coefficients are so few that its system is cheap.
  std::string solver = "auto";
  double tol = 1e-4;  // of the gradient's largest component
  std::int64_t max_iter = 100;
  std::function<void(const LogisticPass&)> see = {};  // called on rank 0
};

struct LogisticFit {
  LinearModel model;
  double loss = 0;
  std::int64_t iterations = 0;
  bool converged = false;
};

/// A collective; the same bits on any number of ranks and threads. `class_totals` are the sums of the rows' weights by
/// class. Fault::Data if a value is not finite.
LogisticFit fit_logistic(const Table& table, LogisticTask task, const std::vector<double>& class_totals,
                         const LogisticSearch& search);

}  // namespace lockstep::ml
