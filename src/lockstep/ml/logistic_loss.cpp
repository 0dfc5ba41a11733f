#include "lockstep/ml/logistic_loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include "lockstep/ml/fold.h"
#include "lockstep/ml/kernels/add_gram.h"
#include "lockstep/ml/kernels/logistic.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

// Rows of a block whose products are made while they are in the second cache.
constexpr std::int64_t kRows = 512;

/// Coefficients as the kernel reads them.
class PaddedCoef {
 public:
  explicit PaddedCoef(const LinearModel& model) : outputs_(model.coef.size(0)), columns_(model.coef.size(1)) {
    coef_.resize(static_cast<std::size_t>(outputs_ * padded(columns_)));
    for (std::int64_t output = 0; output < outputs_; ++output) {
      std::copy_n(model.coef.const_data_ptr<double>() + output * columns_, columns_,
                  coef_.begin() + output * padded(columns_));
    }
    intercept_.assign(model.intercept.const_data_ptr<double>(), model.intercept.const_data_ptr<double>() + outputs_);
  }
  LogisticPoint point() const { return {columns_, outputs_, coef_.data(), intercept_.data()}; }

 private:
  std::int64_t outputs_, columns_;
  std::vector<double> coef_, intercept_;
};

struct OfThread {
  LogisticScratch logistic;
  GramScratch gram;
  std::vector<double> weights, probabilities, products;
};

}  // namespace

/// Gradients, then the products of each pair of outputs, whose sums begin on 64 bytes, then the loss.
struct LogisticLoss::Places {
  GramShape shape;
  std::int64_t outputs, gradient_size, pairs;

  Places(std::int64_t columns, std::int64_t outputs_, bool with_hessian)
      : shape{columns, 0},
        outputs(outputs_),
        gradient_size(outputs * padded(columns + 1)),
        pairs(with_hessian ? outputs * (outputs + 1) / 2 : 0) {}
  double* gram(double* sums, std::int64_t pair) const { return sums + gradient_size + pair * shape.size(); }
  std::int64_t loss() const { return gradient_size + pairs * shape.size(); }
  std::int64_t size() const { return loss() + 1; }
};

LogisticLoss::LogisticLoss(const Table& table, const LogisticTask& task)
    : table_(table), task_(task), width_(table.columns() + (task.fit_intercept ? 1 : 0)) {}

LinearModel LogisticLoss::model(const std::vector<double>& unknowns) const {
  const std::int64_t columns = table_.columns();
  LinearModel model{at::empty({task_.outputs, columns}, at::kDouble), at::zeros({task_.outputs}, at::kDouble)};
  const double* shift = task_.shift.const_data_ptr<double>();
  for (std::int64_t output = 0; output < task_.outputs; ++output) {
    const double* own = unknowns.data() + output * width_;
    std::copy_n(own, columns, model.coef.mutable_data_ptr<double>() + output * columns);
    if (!task_.fit_intercept) continue;
    double intercept = own[columns];
    for (std::int64_t column = 0; column < columns; ++column) intercept -= own[column] * shift[column];
    model.intercept.mutable_data_ptr<double>()[output] = intercept;
  }
  return model;
}

Curve LogisticLoss::at(const std::vector<double>& unknowns, bool with_hessian) const {
  const std::int64_t columns = table_.columns(), outputs = task_.outputs;
  const PaddedCoef coef(model(unknowns));
  const Places places(columns, outputs, with_hessian);
  std::vector<OfThread> of_threads(static_cast<std::size_t>(task_.threads));
  const auto leaf = [&]<class T>(const Block& block, std::int64_t number, double* sums, OfThread& own, T) {
    own.probabilities.resize(static_cast<std::size_t>(outputs * kRows));
    own.products.resize(kRows);
    own.weights.resize(kRows);
    const std::int32_t* classes = task_.classes.data() + table_.own_place(number);
    for (std::int64_t first = 0; first < block.rows; first += kRows) {
      const std::int64_t rows = std::min(kRows, block.rows - first);
      const double* weights = block.weights == nullptr ? nullptr : block.weights + first;
      if (!task_.class_weights.empty()) {
        for (std::int64_t row = 0; row < rows; ++row) {
          own.weights[static_cast<std::size_t>(row)] =
              block.weight(first + row) * task_.class_weights[static_cast<std::size_t>(classes[first + row])];
        }
        weights = own.weights.data();
      }
      const T* x = block.x<T>() + first * columns;
      add_logistic(x, rows, coef.point(), classes + first, weights, {sums + places.loss(), sums},
                   with_hessian ? own.probabilities.data() : nullptr, own.logistic);
      std::int64_t pair = 0;
      for (std::int64_t one = 0; with_hessian && one < outputs; ++one) {
        for (std::int64_t other = one; other < outputs; ++other, ++pair) {
          const double* p = own.probabilities.data() + one * padded(rows);
          const double* q = own.probabilities.data() + other * padded(rows);
          double* products = own.products.data();
          for (std::int64_t row = 0; row < rows; ++row) products[row] = p[row] * (one == other ? 1 - p[row] : q[row]);
          if (weights != nullptr) {
            for (std::int64_t row = 0; row < rows; ++row) products[row] *= weights[row];
          }
          add_gram(x, nullptr, products, rows, places.shape, {task_.shift.const_data_ptr<double>()},
                   places.gram(sums, pair), own.gram);
        }
      }
    }
  };
  at::Tensor sums = fold(table_, task_.threads,
                         {.name = "logistic loss",
                          .size = places.size(),
                          .leaf = [&](const Block& block, std::int64_t number, double* partial, int thread) {
                            with_type_of(table_, [&](auto type) {
                              leaf(block, number, partial, of_threads[static_cast<std::size_t>(thread)], type);
                            });
                          }});
  double* all = sums.mutable_data_ptr<double>();
  Curve curve{.value = all[places.loss()] / task_.weight,
              .gradient = std::vector<double>(static_cast<std::size_t>(this->unknowns()))};
  const double* shift = task_.shift.const_data_ptr<double>();
  for (std::int64_t output = 0; output < outputs; ++output) {
    const double* of_loss = all + output * padded(columns + 1);
    const double* coefficients = unknowns.data() + output * width_;
    double* gradient = curve.gradient.data() + output * width_;
    for (std::int64_t column = 0; column < columns; ++column) {
      gradient[column] =
          (of_loss[column] - shift[column] * of_loss[columns]) / task_.weight + task_.l2 * coefficients[column];
      curve.value += 0.5 * task_.l2 * coefficients[column] * coefficients[column];
    }
    if (task_.fit_intercept) gradient[columns] = of_loss[columns] / task_.weight;
  }
  if (with_hessian) curve.hessian = hessian(places.gram(all, 0));
  if (with_hessian && std::isfinite(curve.value) && !std::isfinite(curve.hessian.sum().item<double>())) {
    fail_of_large_products();
  }
  return curve;
}

at::Tensor LogisticLoss::hessian(const double* grams) const {
  const std::int64_t columns = table_.columns(), outputs = task_.outputs;
  const GramShape shape{columns, 0};
  at::Tensor result = at::zeros({outputs, width_, outputs, width_}, at::kDouble);
  for (std::int64_t one = 0; one < outputs; ++one) {
    for (std::int64_t other = one; other < outputs; ++other, grams += shape.size()) {
      const at::Tensor sums =
          at::from_blob(const_cast<double*>(grams), {shape.stride(), shape.stride()}, at::kDouble);  // is only read
      const at::Tensor lower = sums.slice(0, 0, width_).slice(1, 0, width_).tril();
      at::Tensor block = (lower + lower.tril(-1).t()) / task_.weight;
      if (one == other) {
        block.diagonal().slice(0, 0, columns).add_(task_.l2);
      } else {
        block = -block;
      }
      result.select(0, one).select(1, other).copy_(block);
      result.select(0, other).select(1, one).copy_(block);
    }
  }
  // What is added to all outputs alike changes no probability. Their steps sum to 0 if such a direction is given any
  // curvature.
  if (outputs > 1) {
    at::Tensor size = at::zeros({width_}, at::kDouble);
    for (std::int64_t one = 0; one < outputs; ++one) size += result.select(0, one).select(1, one).diagonal();
    for (std::int64_t one = 0; one < outputs; ++one) {
      for (std::int64_t other = 0; other < outputs; ++other) {
        result.select(0, one).select(1, other).diagonal().add_(size / (outputs * outputs));
      }
    }
  }
  return result.view({unknowns(), unknowns()});
}

double LogisticLoss::steepness(const std::vector<double>& gradient) const {
  const std::int64_t columns = table_.columns();
  const double* shift = task_.shift.const_data_ptr<double>();
  double largest = 0;
  for (std::int64_t output = 0; output < task_.outputs; ++output) {
    const double* own = gradient.data() + output * width_;
    const double by_intercept = task_.fit_intercept ? own[columns] : 0;
    largest = std::max(largest, std::abs(by_intercept));
    for (std::int64_t column = 0; column < columns; ++column) {
      largest = std::max(largest, std::abs(own[column] + shift[column] * by_intercept));
    }
  }
  return largest;
}

void tell_classes(const Table& table, const LinearModel& model, const Block& block, std::int32_t* numbers) {
  const PaddedCoef coef(model);
  const std::int64_t outputs = model.coef.size(0), stride = padded(block.rows);
  std::vector<double> probabilities(static_cast<std::size_t>(outputs * stride));
  LogisticScratch scratch;
  with_type_of(table, [&]<class T>(T) {
    add_logistic(block.x<T>(), block.rows, coef.point(), nullptr, nullptr, {}, probabilities.data(), scratch);
  });
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const double* own = probabilities.data() + row;
    std::int32_t best = outputs == 1 && own[0] > 0.5 ? 1 : 0;
    for (std::int32_t output = 1; output < outputs; ++output) {
      if (own[output * stride] > own[best * stride]) best = output;
    }
    numbers[row] = best;
  }
}

}  // namespace lockstep::ml
