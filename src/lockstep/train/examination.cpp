#include "lockstep/train/examination.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/profile/span.h"

namespace lockstep::train {
namespace {

using Ids = std::vector<std::int64_t>;

/// Of one shard, or of a rank's whole part.
struct Finding {
  int rank = 0;
  int shard = 0;
  bool finite = true;           // the loss, and all gradients
  std::string not_finite = {};  // the first parameter in the order of backward whose gradient is not
  double norm = 0;              // of the gradient, if finite
  std::string largest = {};     // the parameter that has most of it
  Ids ids = {};
  Ids spoilt_ids = {};  // samples that hold values that are no numbers
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, rank, shard, finite, not_finite, norm, largest, ids, spoilt_ids)

bool is_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

/// The numbers of parameters as backward reaches them, which is how buckets are laid out.
std::vector<std::size_t> backward_order(const parallel::Buckets& buckets) {
  std::vector<std::size_t> order;
  for (const auto& bucket : buckets.all())
    order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
  return order;
}

/// Of shards no rank has what its own backward brought.
void look_at_gradients(const parallel::GradientEngine& engine, double scale, Finding& finding) {
  if (engine.shared_out()) return;
  double squares = 0, most = 0;
  for (const std::size_t number : backward_order(engine.buckets())) {
    const auto& [name, parameter] = engine.parameters()[number];
    if (!parameter.grad().defined()) continue;
    const at::Tensor gradient = parameter.grad().is_sparse() ? parameter.grad().coalesce().values() : parameter.grad();
    if (!is_finite(gradient)) {
      finding.finite = false;
      if (finding.not_finite.empty()) finding.not_finite = name;
      continue;
    }
    const double norm = gradient.to(at::kDouble).norm().item<double>() * scale;
    squares += norm * norm;
    if (norm < most) continue;
    most = norm;
    finding.largest = name;
  }
  finding.norm = std::sqrt(squares);
}

Ids spoilt_of(const data::Batch& batch, std::int64_t first, std::int64_t last) {
  Ids result;
  for (std::int64_t sample = first; sample < last; ++sample) {
    const bool whole = std::all_of(batch.tensors.begin(), batch.tensors.end(), [&](const at::Tensor& tensor) {
      return !tensor.defined() || !tensor.is_floating_point() || is_finite(tensor[sample]);
    });
    if (!whole) result.push_back(batch.ids[static_cast<std::size_t>(sample)]);
  }
  return result;
}

Finding examine_shard(const BadStep& step, int number, parallel::GradientEngine& engine,
                      const comm::Communicator& group) {
  Finding finding{.rank = group.world_rank(group.rank()), .shard = step.shards.own.first + number};
  const auto [first, last] = step.shards.range(step.batch, number);
  engine.drop_gradients();
  finding.finite = std::isfinite(step.work_through(number));
  const at::NoGradGuard no_gradients;
  look_at_gradients(engine, step.gradient_scale, finding);
  finding.ids.assign(step.batch.ids.begin() + first, step.batch.ids.begin() + last);
  finding.spoilt_ids = spoilt_of(step.batch, first, last);
  return finding;
}

std::string list(const Ids& ids) {
  std::vector<std::string> texts;
  for (const auto id : ids) texts.push_back(std::to_string(id));
  return list_some(texts, 16);
}

std::string describe(const Finding& finding, bool exact) {
  std::string text = fmt::format("rank {}{}: ", finding.rank, exact ? fmt::format(" (shard {})", finding.shard) : "");
  if (!finding.not_finite.empty()) {
    text += fmt::format("the first gradient that is not finite, in the order of backward, is that of {}",
                        finding.not_finite);
  } else if (!finding.finite) {
    text += "its loss is not finite, though its gradients are";
  } else if (finding.largest.empty()) {
    text += "whose gradient it is is not known, as ranks share them out";
  } else {
    text +=
        fmt::format("its own gradient is the largest, of norm {:.4g}, most of it in {}", finding.norm, finding.largest);
  }
  text += fmt::format("; its samples are {}", list(finding.ids));
  if (!finding.spoilt_ids.empty()) text += fmt::format("; values of {} are not finite", list(finding.spoilt_ids));
  return text;
}

/// Weights are the same on all ranks, or a rank looks at what it has.
std::string weights_not_finite(const parallel::GradientEngine& engine) {
  const at::NoGradGuard no_gradients;
  for (std::size_t number = 0; number < engine.parameters().size(); ++number) {
    const std::string& name = engine.parameters()[number].name;
    if (!is_finite(engine.weight(number))) return fmt::format("the weights of {} are not finite any more; ", name);
  }
  return "";
}

}  // namespace

std::string examine(const BadStep& step, parallel::GradientEngine& engine, comm::Communicator& group) {
  const profile::Span span("examine a step");
  engine.reduce_in_backward(false);
  std::vector<Finding> mine;
  for (int number = 0; number < step.shards.own.count; ++number) {
    mine.push_back(examine_shard(step, number, engine, group));
  }
  engine.drop_gradients();
  std::vector<Finding> all;
  for (const auto& theirs : group.gather_bytes(nlohmann::json(mine).dump())) {
    for (auto& finding : nlohmann::json::parse(theirs).get<std::vector<Finding>>()) all.push_back(std::move(finding));
  }
  auto worst = std::find_if(all.begin(), all.end(), [](const Finding& finding) { return !finding.finite; });
  if (worst == all.end()) {
    worst = std::max_element(all.begin(), all.end(),
                             [](const Finding& one, const Finding& other) { return one.norm < other.norm; });
  }
  return weights_not_finite(engine) + describe(*worst, step.exact);
}

}  // namespace lockstep::train
