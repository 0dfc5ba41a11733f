#include "lockstep/ml/naive_bayes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/check_rows.h"

namespace lockstep::ml {
namespace {

/// The row of the first target that is none of the classes. A collective.
void check_classes(const Table& table, const Classes& classes, const std::vector<std::int32_t>& numbers) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const auto found = std::find(numbers.begin(), numbers.end(), -1);
  const std::int64_t first = table.plan().begin(table.own_begin());
  const at::Tensor row = at::tensor({found == numbers.end() ? kNone : first + (found - numbers.begin())}, at::kLong);
  table.group().all_reduce_(row, comm::ReduceOp::Min, {.name = "classes nobody knows"}).wait();
  if (row.item<std::int64_t>() == kNone) return;
  fail(Fault::Data, fmt::format("{} of row {} is none of the {} classes of the first fit",
                                table.name_of(table.columns()), row.item<std::int64_t>(), classes.count()));
}

}  // namespace

NaiveBayes::NaiveBayes(int threads) : threads_(threads == 0 ? at::get_num_threads() : threads) {}

void NaiveBayes::check_priors(const std::vector<double>& priors, const char* name) {
  constexpr double kNear = 1e-8;
  const double sum = std::accumulate(priors.begin(), priors.end(), 0.0);
  const bool from_zero_on = std::all_of(priors.begin(), priors.end(), [](double prior) { return prior >= 0; });
  if (priors.empty() || (from_zero_on && std::abs(sum - 1) <= kNear)) return;
  std::vector<std::string> values;
  for (const double prior : priors) values.push_back(fmt::format("{}", prior));
  fail(Fault::Usage, fmt::format("{} = {}: they are from 0 on, and their sum is 1", name, list_some(values, 10)));
}

void NaiveBayes::check_tensors(const Classes& classes, const std::vector<at::Tensor>& by_column,
                               const std::vector<at::Tensor>& by_class) {
  bool good = true;
  for (const at::Tensor& one : by_column) {
    good = good && one.scalar_type() == at::kDouble && one.dim() == 2 && one.size(0) == classes.count() &&
           one.size(1) == by_column.front().size(1);
  }
  for (const at::Tensor& one : by_class) {
    good = good && one.scalar_type() == at::kDouble && one.sizes() == at::IntArrayRef({classes.count()});
  }
  if (!good) fail(Fault::Data, "the model's tensors are not of its classes");
}

NaiveBayes::Seen NaiveBayes::seen_with(const Table& table, const std::vector<double>& classes, bool anew) const {
  const bool first = anew || classes_.count() == 0;
  if (!first) check_can_go_on(moments_.rows.defined());
  Seen seen{.classes = classes_, .moments = {}};
  if (first) {
    seen.classes = Classes::of(table, threads_);
    if (!classes.empty()) seen.classes = seen.classes.with_values(classes);
  } else if (table.targets() != 1 || table.columns() != columns()) {
    fail(Fault::Usage, fmt::format("{} columns and {} targets after a fit to {} and one", table.columns(),
                                   table.targets(), columns()));
  }
  const auto numbers = seen.classes.numbers(table, threads_);
  check_classes(table, seen.classes, numbers);
  const ClassMoments moments = class_moments(table, numbers, seen.classes.count(), threads_);
  seen.moments = first ? moments : both(moments_, moments);
  check_weight(seen.moments.weight.sum().item<double>());
  return seen;
}

void NaiveBayes::become(Seen seen) {
  classes_ = std::move(seen.classes);
  moments_ = std::move(seen.moments);
}

at::Tensor NaiveBayes::log_priors(const Seen& seen, const std::vector<double>& given) {
  if (given.empty()) return (seen.moments.weight / seen.moments.weight.sum()).log();
  if (static_cast<std::int64_t>(given.size()) != seen.classes.count()) {
    fail(Fault::Usage, fmt::format("{} priors for {} classes", given.size(), seen.classes.count()));
  }
  return at::tensor(given, at::kDouble).log();
}

template <class T>
void NaiveBayes::joint_rows(const T* x, std::int64_t rows, double* result) const {
  std::vector<double> row(static_cast<std::size_t>(columns()));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy_n(x + i * columns(), columns(), row.begin());
    joint(row.data(), result + i * classes_.count());
  }
}

at::Tensor NaiveBayes::predict_joint_log_proba(const at::Tensor& x) const {
  const at::Tensor rows = checked_rows(x, columns());
  const at::Tensor result = at::empty({rows.size(0), classes_.count()}, at::kDouble);
  constexpr std::int64_t kAtOnce = 1024;
  const auto make = [&]<class T>(const T* values) {
    on_threads(threads_, rows.size(0), kAtOnce, [&](std::int64_t first, std::int64_t last, int) {
      joint_rows(values + first * columns(), last - first,
                 result.mutable_data_ptr<double>() + first * classes_.count());
    });
  };
  rows.scalar_type() == at::kFloat ? make(rows.const_data_ptr<float>()) : make(rows.const_data_ptr<double>());
  return result;
}

at::Tensor NaiveBayes::predict(const at::Tensor& x) const {
  return classes_.values_of(predict_joint_log_proba(x).argmax(1));
}

at::Tensor NaiveBayes::predict_log_proba(const at::Tensor& x) const {
  return predict_joint_log_proba(x).log_softmax(1);
}

at::Tensor NaiveBayes::predict_proba(const at::Tensor& x) const { return predict_joint_log_proba(x).softmax(1); }

double NaiveBayes::score(const Table& table) const {
  check_columns(table, columns());
  const std::int64_t count = classes_.count();
  return accuracy(table, classes_, threads_, [&](const Block& block, std::int32_t* numbers) {
    std::vector<double> all(static_cast<std::size_t>(block.rows * count));
    with_type_of(table, [&]<class T>(T) { joint_rows(block.x<T>(), block.rows, all.data()); });
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const double* own = all.data() + row * count;
      numbers[row] = static_cast<std::int32_t>(std::max_element(own, own + count) - own);
    }
  });
}

}  // namespace lockstep::ml
