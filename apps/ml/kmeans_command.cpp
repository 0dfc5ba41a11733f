#include "ml/kmeans_command.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "progress.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

/// Of what comes often: some lines at first, then fewer and fewer.
bool worth_a_line(std::int64_t number) {
  std::int64_t every = 1;
  while (number >= 10 * every) every *= 10;
  return number % every == 0;
}

/// What is said on standard error while centroids move.
class Teller {
 public:
  Teller(Tells tells, std::int64_t clusters, std::int64_t max_iter)
      : terminal_(tells != Tells::Nothing && isatty(STDERR_FILENO) == 1),
        lines_(tells == Tells::Always && !terminal_),
        clusters_(clusters),
        max_iter_(max_iter) {}

  bool speaks() const noexcept { return terminal_ || lines_; }

  void pass(const ml::KMeansPass& pass) {
    const std::string start = pass.starts > 1 ? fmt::format("start {} of {}  ", pass.start + 1, pass.starts) : "";
    if (terminal_) {
      if (pass.iteration == 1) bar_.emplace(start + counted(clusters_, "cluster"), "iterations", max_iter_);
      bar_->add(1);
    } else if (worth_a_line(pass.iteration) || pass.last) {
      fmt::print(stderr, "{}iteration {}  {} labels changed  centroids moved {:.4g}\n", start, pass.iteration,
                 with_commas(pass.changed), pass.shift);
    }
  }

  void batch(const ml::MiniBatchStep& step) {
    if (terminal_) {
      if (step.step == 1) bar_.emplace(counted(clusters_, "cluster"), "batches", step.steps);
      bar_->add(1);
    } else if (worth_a_line(step.step) || step.last) {
      fmt::print(stderr, "batch {} of {} at most  inertia of a row {:.4g}\n", with_commas(step.step),
                 with_commas(step.steps), step.smoothed);
    }
  }

 private:
  const bool terminal_, lines_;
  const std::int64_t clusters_, max_iter_;
  std::optional<Progress> bar_;
};

}  // namespace

std::vector<std::int64_t> KMeansCommand::cluster_counts() const {
  if (clusters.empty()) return {kmeans.n_clusters};
  const auto parts = split(clusters, ':');
  const auto refuse_range = [&] {
    fail(Fault::Usage, fmt::format("-k {}: a range is -k 2:20, or -k 2:20:2 for every second number", clusters));
  };
  if (parts.size() > 3 || std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); }))
    refuse_range();
  std::vector<std::int64_t> numbers;
  for (const std::string& part : parts)
    numbers.push_back(parse_integer("-k", part, 1, std::numeric_limits<std::int32_t>::max()));
  if (numbers.size() == 1) return numbers;
  if (numbers[1] < numbers[0]) refuse_range();
  constexpr std::int64_t kMost = 10'000;
  const std::int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  if ((numbers[1] - numbers[0]) / step >= kMost) {
    fail(Fault::Usage, fmt::format("-k {}: a range has at most {} numbers", clusters, kMost));
  }
  std::vector<std::int64_t> counts;
  for (std::int64_t count = numbers[0]; count <= numbers[1]; count += step) counts.push_back(count);
  return counts;
}

ml::KMeansOptions KMeansCommand::by_passes() const {
  auto result = kmeans;
  if (max_iter) result.max_iter = *max_iter;
  if (tol) result.tol = *tol;
  return result;
}

ml::MiniBatchKMeansOptions KMeansCommand::by_batches() const {
  auto result = batches;
  result.n_clusters = kmeans.n_clusters;
  result.init = kmeans.init;
  result.centers = kmeans.centers;
  result.n_init = kmeans.n_init;
  result.random_state = kmeans.random_state;
  if (batch_size) result.batch_size = *batch_size;
  if (max_iter) result.max_iter = *max_iter;
  if (tol) result.tol = *tol;
  return result;
}

ml::ModelFile fit_kmeans(const KMeansCommand& command, const ml::Table& table, Tells tells) {
  const auto options = command.by_passes();
  Teller teller(tells, options.n_clusters, options.max_iter);
  if (command.batch_size) {
    ml::MiniBatchKMeans kmeans(command.by_batches());
    std::function<void(const ml::MiniBatchStep&)> see;
    if (teller.speaks()) see = [&](const ml::MiniBatchStep& step) { teller.batch(step); };
    kmeans.fit(table, see);
    return kmeans.file(table);
  }
  ml::KMeans kmeans(options);
  std::function<void(const ml::KMeansPass&)> see;
  if (teller.speaks()) see = [&](const ml::KMeansPass& pass) { teller.pass(pass); };
  kmeans.fit(table, see);
  return kmeans.file(table);
}

void report_kmeans(const KMeansCommand& command, const ml::ModelFile& model, const ml::Table& table, double seconds,
                   const nlohmann::json& more) {
  const auto kmeans = ml::KMeansModel::from(model);
  const std::int64_t clusters = kmeans.cluster_centers().size(0);
  const auto batches = model.parameter("n_steps", std::int64_t{0});
  if (command.ml.json) {
    nlohmann::json json = {{"algorithm", "kmeans"},         {"rows", table.rows()}, {"columns", table.columns()},
                           {"ranks", table.group().size()}, {"clusters", clusters}, {"inertia", kmeans.inertia()},
                           {"iterations", kmeans.n_iter()}, {"seconds", seconds},   {"output", command.ml.output}};
    if (batches > 0) json["batches"] = batches;
    json.update(more);
    fmt::print("{}", json_text(json));
    return;
  }
  fmt::print("{}, {}: inertia {:.6g} after {} in {}\n", size_text(table), counted(clusters, "cluster"),
             kmeans.inertia(), batches > 0 ? counted(batches, "batch") : counted(kmeans.n_iter(), "iteration"),
             format_seconds(seconds));
  if (!command.ml.output.empty()) fmt::print("{}\n", command.ml.output);
}

}  // namespace lockstep::apps
