#include "lockstep/ml/logistic_solver.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include "lockstep/ml/gram.h"
#include "lockstep/ml/lbfgs.h"
#include "lockstep/ml/newton.h"
#include "lockstep/ml/whitening.h"

namespace lockstep::ml {
namespace {

/// Intercepts that give each class its share of the rows, whatever the columns say.
std::vector<double> start_of(const LogisticLoss& loss, const LogisticTask& task, const std::vector<double>& totals) {
  std::vector<double> start(static_cast<std::size_t>(loss.unknowns()));
  const bool all = std::all_of(totals.begin(), totals.end(), [](double total) { return total > 0; });
  if (!task.fit_intercept || !all) return start;
  const auto intercept = [&](std::size_t output) -> double& {
    return start[(output + 1) * static_cast<std::size_t>(loss.width()) - 1];
  };
  if (task.outputs == 1) {
    intercept(0) = std::log(totals[1] / totals[0]);
    return start;
  }
  double mean = 0;
  for (const double total : totals) mean += std::log(total) / static_cast<double>(totals.size());
  for (std::size_t output = 0; output < totals.size(); ++output) intercept(output) = std::log(totals[output]) - mean;
  return start;
}

/// Rank 0 looks for the minimum and says where the loss is to be known, all ranks make it: steps and ends are decided
/// once, though hosts may compute the last bits of a step in different ways.
class Led {
 public:
  using Ask = std::function<Curve(const std::vector<double>& x, bool with_hessian)>;

  Led(const Table& table, const LogisticLoss& loss) : table_(table), loss_(loss) {}

  Minimum run(const std::function<Minimum(const Ask& ask)>& lead) {
    if (table_.group().rank() == 0) {
      const Minimum found = lead([&](const std::vector<double>& x, bool with_hessian) {
        (void)shared({with_hessian ? kHessian : kSlope, x});
        return look(x, with_hessian);
      });
      (void)shared({kEnd, found.x, found.value, static_cast<double>(found.iterations), found.converged ? 1.0 : 0.0});
      return found;
    }
    while (true) {
      const Message message = shared({kEnd, std::vector<double>(static_cast<std::size_t>(loss_.unknowns()))});
      if (message.kind == kEnd) {
        return {message.x, message.value, static_cast<std::int64_t>(message.iterations), message.converged != 0};
      }
      (void)look(message.x, message.kind == kHessian);
    }
  }

 private:
  static constexpr double kEnd = 0, kSlope = 1, kHessian = 2;
  struct Message {
    double kind = kEnd;
    std::vector<double> x;
    double value = 0, iterations = 0, converged = 0;
  };

  /// That of rank 0.
  Message shared(const Message& own) const {
    const at::Tensor words = at::cat({at::tensor({own.kind, own.value, own.iterations, own.converged}, at::kDouble),
                                      at::tensor(own.x, at::kDouble)});
    table_.group().broadcast_(words, 0, {.name = "where to look"}).wait();
    const double* word = words.const_data_ptr<double>();
    return {word[0], std::vector<double>(word + 4, word + words.numel()), word[1], word[2], word[3]};
  }

  Curve look(const std::vector<double>& x, bool with_hessian) {
    Curve curve = loss_.at(x, with_hessian);
    // Where it starts nothing but the data can be the reason.
    if (!started_ && !std::isfinite(curve.value)) check_finite(table_);
    started_ = true;
    return curve;
  }

  const Table& table_;
  const LogisticLoss& loss_;
  bool started_ = false;
};

/// Newton's method costs a sweep of products for every pair of outputs, L-BFGS some more sweeps of margins alone.
bool prefers_newton(const std::string& solver, std::int64_t columns, std::int64_t outputs) {
  if (solver != "auto") return solver == "newton-cholesky";
  constexpr std::int64_t kMost = 128;
  return outputs * (columns + 1) <= kMost;
}

bool is_done(const LogisticLoss& loss, const LogisticSearch& search, std::int64_t iteration, double value,
             const std::vector<double>& gradient) {
  const double steepness = loss.steepness(gradient);
  if (search.see) search.see({iteration, value, steepness});
  return steepness <= search.tol;
}

Minimum by_newton(const LogisticLoss& loss, double damping, std::vector<double> start, const LogisticSearch& search,
                  const Led::Ask& ask) {
  return newton([&](const std::vector<double>& x) { return ask(x, true); }, std::move(start),
                {.max_iter = search.max_iter,
                 .damping = damping,
                 .done = [&](std::int64_t iteration, double value, const std::vector<double>& gradient) {
                   return is_done(loss, search, iteration, value, gradient);
                 }});
}

Minimum by_lbfgs(const LogisticLoss& loss, const Whitening& whitening, const std::vector<double>& start,
                 const LogisticSearch& search, const Led::Ask& ask) {
  Minimum found = lbfgs(
      [&](const std::vector<double>& whitened, std::vector<double>& gradient) {
        const Curve curve = ask(whitening.unknowns(whitened), false);
        gradient = whitening.whitened_gradient(curve.gradient);
        return curve.value;
      },
      whitening.whitened(start),
      {.max_iter = search.max_iter,
       .done = [&](std::int64_t iteration, double value, const std::vector<double>& gradient) {
         return is_done(loss, search, iteration, value, whitening.gradient(gradient));
       }});
  found.x = whitening.unknowns(found.x);
  return found;
}

}  // namespace

LogisticFit fit_logistic(const Table& table, LogisticTask task, const std::vector<double>& class_totals,
                         const LogisticSearch& search) {
  std::function<Minimum(const LogisticLoss& loss, std::vector<double> start, const Led::Ask& ask)> solve;
  if (prefers_newton(search.solver, table.columns(), task.outputs)) {
    task.shift = first_look(table).mean.slice(0, 0, table.columns()).contiguous();
    if (!task.fit_intercept) task.shift.zero_();
    // Without a penalty there may be directions that change nothing.
    const double damping = task.l2 > 0 ? 0 : 1e-10;
    solve = [&search, damping](const LogisticLoss& loss, std::vector<double> start, const Led::Ask& ask) {
      return by_newton(loss, damping, std::move(start), search, ask);
    };
  } else {
    // Where all classes are equally likely the Hessian is the mean of the columns' products, times this.
    const double share = task.outputs == 1 ? 0.25 : 1 / static_cast<double>(task.outputs);
    const Whitening whitening(table, task.fit_intercept, share, task.l2, task.threads);
    task.shift = whitening.mean();
    solve = [&search, whitening](const LogisticLoss& loss, const std::vector<double>& start, const Led::Ask& ask) {
      return by_lbfgs(loss, whitening, start, search, ask);
    };
  }
  const LogisticLoss loss(table, task);
  const Minimum found =
      Led(table, loss).run([&](const Led::Ask& ask) { return solve(loss, start_of(loss, task, class_totals), ask); });
  return {loss.model(found.x), found.value, found.iterations, found.converged};
}

}  // namespace lockstep::ml
