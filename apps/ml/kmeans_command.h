// apps/ml/kmeans_command.h
//
// What a user asks of `lockstep kmeans`, and one fit of it: by passes or by batches, while a
// bar or some lines tell how far it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/ml/algorithms/kmeans.h"
#include "lockstep/ml/algorithms/minibatch_kmeans.h"
#include "ml/ml_options.h"

namespace lockstep::apps {

struct KMeansCommand {
  MlOptions ml;
  ml::KMeansOptions kmeans;
  ml::MiniBatchKMeansOptions batches;  // what kmeans has too is taken from there
  std::optional<std::int64_t> batch_size;
  std::optional<std::int64_t> max_iter;  // their defaults differ
  std::optional<double> tol;
  std::string clusters;  // "8", a range "2:20" or "2:20:2"; empty: the default
  std::string centers;   // file of those to begin with
  std::string plot;      // of a range
  std::string image, palette;

  bool is_range() const { return clusters.find(':') != std::string::npos; }
  /// All that are asked for. Fault::Usage if they are no numbers.
  std::vector<std::int64_t> cluster_counts() const;

  ml::KMeansOptions by_passes() const;
  ml::MiniBatchKMeansOptions by_batches() const;
};

enum class Tells : std::uint8_t { Nothing, OnTerminals, Always };

/// Of so many clusters, from the centroids of the options if there are any. A collective; the rank that `tells` shows
/// how far it is.
ml::ModelFile fit_kmeans(const KMeansCommand& command, const ml::Table& table, Tells tells);

/// "1,797 rows of 64 columns, 10 clusters: …", or JSON, which has `more` at its end.
void report_kmeans(const KMeansCommand& command, const ml::ModelFile& model, const ml::Table& table, double seconds,
                   const nlohmann::json& more = nlohmann::json::object());

}  // namespace lockstep::apps
