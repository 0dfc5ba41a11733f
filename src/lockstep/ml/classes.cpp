#include "lockstep/ml/classes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/fold.h"

namespace lockstep::ml {
namespace {

// Most classes are whole numbers from 0 on: these are looked up, others are searched for.
constexpr std::int64_t kSmall = 256;

/// Its place in a table of small ones, or -1.
std::int64_t small_place(double value) {
  const bool within = value >= 0 && value < static_cast<double>(kSmall);
  const auto place = static_cast<std::int64_t>(within ? value : -1);
  return static_cast<double>(place) == value ? place : -1;
}

/// Different values of some rows in ascending order: their number, NaN if one is not finite, and then at most kMost.
class ValueSet {
 public:
  static constexpr std::int64_t kWords = 1 + Classes::kMost;

  static void collect(const double* targets, std::int64_t rows, double* words) {
    std::array<bool, kSmall + 1> seen{};  // at its end whatever is not small
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t place = small_place(targets[row]);
      seen[static_cast<std::size_t>(place < 0 ? kSmall : place)] = true;
    }
    std::vector<double> values;
    if (seen[kSmall]) {
      std::copy_if(targets, targets + rows, std::back_inserter(values), [](double v) { return small_place(v) < 0; });
      if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) {
        words[0] = std::numeric_limits<double>::quiet_NaN();
        return;
      }
    }
    for (std::int64_t place = 0; place < kSmall; ++place) {
      if (seen[static_cast<std::size_t>(place)]) values.push_back(static_cast<double>(place));
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    keep(values, words);
  }

  static void merge(double* left, const double* right) {
    if (std::isnan(left[0]) || std::isnan(right[0])) {
      left[0] = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    std::vector<double> both;
    std::ranges::set_union(kept(left), kept(right), std::back_inserter(both));
    const std::int64_t most = std::max(count(left), count(right));
    keep(both, left);
    left[0] = std::max(left[0], static_cast<double>(most));
  }

  static std::int64_t count(const double* words) { return static_cast<std::int64_t>(words[0]); }
  static std::span<const double> kept(const double* words) {
    return {words + 1, static_cast<std::size_t>(std::min(count(words), Classes::kMost))};
  }

 private:
  /// A number beyond kMost only says that there are too many.
  static void keep(const std::vector<double>& values, double* words) {
    words[0] = static_cast<double>(values.size());
    std::copy_n(values.begin(), std::min<std::size_t>(values.size(), Classes::kMost), words + 1);
  }
};

}  // namespace

Classes Classes::of(const Table& table, int threads) {
  if (table.targets() != 1) {
    fail(Fault::Usage, fmt::format("a classifier needs one target, not {}", table.targets()));
  }
  const at::Tensor found = fold(table, threads,
                                {.name = "classes",
                                 .size = ValueSet::kWords,
                                 .leaf = [](const Block& block, std::int64_t, double* words,
                                            int) { ValueSet::collect(block.targets, block.rows, words); },
                                 .combine = ValueSet::merge});
  const double* words = found.const_data_ptr<double>();
  if (std::isnan(words[0])) check_finite(table);
  if (ValueSet::count(words) > kMost) {
    fail(Fault::Usage, fmt::format("{} has more than {} different values: these are no classes, but what a regression "
                                   "explains",
                                   table.name_of(table.columns()), kMost));
  }
  Classes result;
  const auto values = ValueSet::kept(words);
  const auto part = std::find_if(values.begin(), values.end(), [](double v) { return std::floor(v) != v; });
  if (part != values.end()) {
    fail(Fault::Usage, fmt::format("{} is {} in some row: classes are whole numbers or text, and what goes on "
                                   "continuously is explained by a regression, such as linreg or knn --regression",
                                   table.name_of(table.columns()), *part));
  }
  result.values_.assign(values.begin(), values.end());
  result.value_names_ = table.value_names();
  result.target_ = table.target_names().front();
  return result;
}

Classes Classes::with_values(std::vector<double> values) const {
  std::sort(values.begin(), values.end());
  const bool twice = std::adjacent_find(values.begin(), values.end()) != values.end();
  const bool finite = std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  if (twice || !finite || values.empty()) {
    fail(Fault::Usage, fmt::format("{} are no classes: these are different numbers", fmt::join(values, ", ")));
  }
  Classes result = *this;
  result.values_ = std::move(values);
  return result;
}

Classes Classes::from(const ModelFile& file) {
  const at::Tensor& values = file["classes"];
  if (values.dim() != 1 || values.scalar_type() != at::kDouble || values.numel() == 0) {
    fail(Fault::Data, "the model's classes are no values of classes");
  }
  Classes result;
  result.values_.assign(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
  result.value_names_ = file.parameter("class_names", result.value_names_);
  result.target_ = file.parameter("target", std::string("label"));
  return result;
}

void Classes::add_to(ModelFile& file) const {
  file.tensors.push_back({"classes", at::tensor(values_, at::kDouble)});
  file.parameters["target"] = target_;
  if (!value_names_.empty()) file.parameters["class_names"] = value_names_;
}

std::string Classes::name_of(std::int64_t number) const {
  const double value = values_[static_cast<std::size_t>(number)];
  const bool named = value >= 0 && value < static_cast<double>(value_names_.size()) && std::floor(value) == value;
  return named ? value_names_[static_cast<std::size_t>(value)] : fmt::format("{}", value);
}

std::vector<std::int32_t> Classes::numbers(const Table& table, int threads) const {
  std::vector<std::int32_t> result(static_cast<std::size_t>(table.own_rows()));
  const ClassNumbers number_of(values_);
  std::vector<at::Tensor> scratch(static_cast<std::size_t>(threads));
  const Sweep sweep(table.observer().get(), "classes", table.own_rows());
  on_threads(threads, table.own_end() - table.own_begin(), 1, [&](std::int64_t place, std::int64_t, int thread) {
    const std::int64_t number = table.own_begin() + place;
    const Block block = table.block(number, scratch[static_cast<std::size_t>(thread)]);
    std::transform(block.targets, block.targets + block.rows, result.begin() + table.own_place(number), number_of);
    sweep.add(block.rows);
  });
  return result;
}

ClassRows Classes::rows(const Table& table, int threads) const {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(table.own_rows()));
  const ClassNumbers number_of(values_);
  const at::Tensor sums = fold(table, threads,
                               {.name = "rows of classes",
                                .size = count(),
                                .leaf = [&](const Block& block, std::int64_t number, double* sum, int) {
                                  std::int32_t* own = numbers.data() + table.own_place(number);
                                  std::transform(block.targets, block.targets + block.rows, own, number_of);
                                  for (std::int64_t row = 0; row < block.rows; ++row)
                                    sum[own[row]] += block.weight(row);
                                }});
  return {std::move(numbers), {sums.const_data_ptr<double>(), sums.const_data_ptr<double>() + count()}};
}

at::Tensor Classes::values_of(const at::Tensor& numbers) const {
  const bool whole = std::all_of(values_.begin(), values_.end(), [](double value) {
    constexpr double kExact = 9007199254740992;  // 2^53
    return std::floor(value) == value && std::abs(value) <= kExact;
  });
  return at::tensor(values_, whole ? at::kLong : at::kDouble).index_select(0, numbers.to(at::kLong));
}

ClassNumbers::ClassNumbers(const std::vector<double>& values) : values_(values), of_small_(kSmall, -1) {
  for (std::size_t number = 0; number < values.size(); ++number) {
    const std::int64_t place = small_place(values[number]);
    if (place >= 0) of_small_[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(number);
  }
}

std::int32_t ClassNumbers::operator()(double value) const noexcept {
  const std::int64_t place = small_place(value);
  if (place >= 0) return of_small_[static_cast<std::size_t>(place)];
  const auto found = std::lower_bound(values_.begin(), values_.end(), value);
  return found == values_.end() || *found != value ? -1 : static_cast<std::int32_t>(found - values_.begin());
}

double accuracy(const Table& table, const Classes& classes, int threads,
                const std::function<void(const Block& block, std::int32_t* numbers)>& predict) {
  check_targets(table, 1);
  const ClassNumbers number_of(classes.values());
  const at::Tensor sums =
      fold(table, threads,
           {.name = "accuracy", .size = 2, .leaf = [&](const Block& block, std::int64_t, double* right_and_all, int) {
              std::vector<std::int32_t> found(static_cast<std::size_t>(block.rows));
              predict(block, found.data());
              for (std::int64_t row = 0; row < block.rows; ++row) {
                const bool right = found[static_cast<std::size_t>(row)] == number_of(block.targets[row]);
                right_and_all[0] += right ? block.weight(row) : 0;
                right_and_all[1] += block.weight(row);
              }
            }});
  const double all = sums[1].item<double>();
  check_weight_of_scored(all);
  return sums[0].item<double>() / all;
}

}  // namespace lockstep::ml
