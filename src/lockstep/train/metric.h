// lockstep/train/metric.h
//
// A Metric judges outputs by targets as sums that may be added up over batches and ranks,
// and are turned into numbers once at the end. A new one is one new file in metrics/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/core/registry.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

/// By name, as they are shown.
using Figures = std::vector<std::pair<std::string, double>>;

/// Before the names of a confusion matrix's cells, "confusion/TARGET/GUESS".
inline constexpr const char kConfusion[] = "confusion/";

/// Of losses the lowest is best, of everything else the highest.
bool is_better_low(const std::string& figure);
/// Fault::Usage, naming the key of the recipe that asks for it, if there is none of that name.
void check_figure(const std::string& name, const std::vector<std::string>& names, const std::string& key);
double figure_named(const std::string& name, const Figures& figures, const std::string& key);

class Metric {
 public:
  virtual ~Metric() = default;
  /// Of its figures.
  virtual std::vector<std::string> names() const = 0;
  /// Whether it looks at Score::outputs, which are gathered then where ranks have those of some classes. Else they may
  /// be undefined.
  virtual bool needs_outputs() const { return true; }
  /// float64, of a fixed size.
  virtual at::Tensor sums(const Score& score) const = 0;
  /// Of the sums of all.
  virtual Figures figures(const at::Tensor& sums) const = 0;
};

/// Of what an evaluation by these metrics gives: the loss first.
std::vector<std::string> figure_names(const std::vector<std::shared_ptr<const Metric>>& metrics);

struct MetricSettings {
  std::int64_t number = 0;   // 3 of "top3"
  std::int64_t classes = 0;  // that the task tells apart; 0: not known
};

/// A name that ends in a "K" stands for all that have a number there.
using MetricRegistry = Registry<std::unique_ptr<Metric>(const MetricSettings& settings)>;

/// By its name, with the number that stands in it: "accuracy", "top5".
std::unique_ptr<Metric> make_metric(const std::string& name, std::int64_t classes = 0);

}  // namespace lockstep::train
