#include "ml/kmeans_elbow.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "chart.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/stopwatch.h"
#include "lockstep/core/text.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

/// Of one number of clusters.
struct Fitted {
  std::int64_t clusters;
  ml::ModelFile model;
  double inertia;
  std::int64_t iterations;
  double seconds;
};

/// Where the curve lies farthest below the straight line from its first to its last point, both axes being scaled to
/// [0, 1]. (Satopää et al., "Finding a kneedle in a haystack", 2011.) Distances from the line are in proportion to
/// those straight down.
std::size_t elbow_of(const std::vector<Fitted>& fits) {
  const auto [least, most] = std::minmax_element(
      fits.begin(), fits.end(), [](const Fitted& one, const Fitted& other) { return one.inertia < other.inertia; });
  const double height = most->inertia > least->inertia ? most->inertia - least->inertia : 1;
  const auto width = static_cast<double>(std::max<std::int64_t>(fits.back().clusters - fits.front().clusters, 1));
  std::size_t elbow = 0;
  double farthest = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const double along = static_cast<double>(fits[i].clusters - fits.front().clusters) / width;
    const double line = fits.front().inertia + along * (fits.back().inertia - fits.front().inertia);
    const double below = (line - fits[i].inertia) / height;
    if (below > farthest) std::tie(farthest, elbow) = std::pair(below, i);
  }
  return elbow;
}

std::string chart_of(const std::vector<Fitted>& fits, const Fitted& elbow) {
  Chart::Curve inertia{"inertia", {}};
  for (const auto& fit : fits) inertia.points.emplace_back(static_cast<double>(fit.clusters), fit.inertia);
  return svg_chart(
      {.title = "Inertia of K-means",
       .places = "clusters",
       .values = "inertia",
       .curves = {{fmt::format("elbow: {}", elbow.clusters), {{static_cast<double>(elbow.clusters), elbow.inertia}}},
                  inertia}});
}

void print_head() { fmt::print("{:>8}  {:>12}  {:>10}  {:>10}\n", "clusters", "inertia", "iterations", "time"); }

void print(const Fitted& fit) {
  fmt::print("{:>8}  {:>12.6g}  {:>10}  {:>10}\n", fit.clusters, fit.inertia, fit.iterations,
             format_seconds(fit.seconds));
  std::fflush(stdout);
}

void print_end(const KMeansCommand& command, const ml::Table& table, const std::vector<Fitted>& fits,
               const Fitted& elbow) {
  fmt::print("{}: the elbow is at {}, farthest below the line from {} to {}\n", size_text(table),
             counted(elbow.clusters, "cluster"), fits.front().clusters, fits.back().clusters);
  for (const auto& file : {command.ml.output, command.plot}) {
    if (!file.empty()) fmt::print("{}\n", file);
  }
}

void print_json(const KMeansCommand& command, const ml::Table& table, const std::vector<Fitted>& fits,
                const Fitted& elbow) {
  auto list = nlohmann::json::array();
  for (const auto& fit : fits) {
    list.push_back({{"clusters", fit.clusters},
                    {"inertia", fit.inertia},
                    {"iterations", fit.iterations},
                    {"seconds", fit.seconds}});
  }
  const nlohmann::json report = {{"algorithm", "kmeans"},         {"rows", table.rows()}, {"columns", table.columns()},
                                 {"ranks", table.group().size()}, {"fits", list},         {"elbow", elbow.clusters},
                                 {"output", command.ml.output}};
  fmt::print("{}", json_text(report));
}

}  // namespace

void fit_range(const KMeansCommand& command, comm::Communicator& world) {
  const auto table = read_source(command.ml, world);
  const auto counts = command.cluster_counts();
  // Before hours of work, not after them.
  if (table->rows() < counts.back()) {
    fail(Fault::Usage, fmt::format("{} rows for {} clusters; use a lower end of -k {}", table->rows(), counts.back(),
                                   command.clusters));
  }
  const bool leads = world.rank() == 0, prints = leads && !command.ml.json;
  if (prints) print_head();
  std::vector<Fitted> fits;
  for (const std::int64_t count : counts) {
    auto one = command;
    one.kmeans.n_clusters = count;
    const Stopwatch watch;
    auto model = fit_kmeans(one, *table, prints ? Tells::OnTerminals : Tells::Nothing);
    const auto kmeans = ml::KMeansModel::from(model);
    fits.push_back({count, std::move(model), kmeans.inertia(), kmeans.n_iter(), watch.seconds()});
    if (prints) print(fits.back());
  }
  if (!leads) return;
  const Fitted& elbow = fits[elbow_of(fits)];
  write_output(command.ml.output, elbow.model);
  if (!command.plot.empty()) write_whole(command.plot, chart_of(fits, elbow));
  command.ml.json ? print_json(command, *table, fits, elbow) : print_end(command, *table, fits, elbow);
}

}  // namespace lockstep::apps
