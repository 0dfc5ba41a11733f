// K-means over the rows of all ranks: each brings its own, and all get the same centroids, to the last bit whatever the
// number of ranks.
#include "lockstep/ml/algorithms/kmeans.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/runtime.h"
#include "lockstep/core/error.h"

using namespace lockstep;

/// This rank's of 30,000 points around three places, as if it had read a file of its own.
at::Tensor own_rows(const comm::Communicator& group) {
  at::manual_seed(1);
  const at::Tensor places = at::tensor({-20.0, 0.0, 20.0}, at::kDouble).repeat({10'000}).unsqueeze(1);
  const at::Tensor all = places + at::randn({30'000, 2}, at::kDouble);
  return all.slice(0, all.size(0) * group.rank() / group.size(), all.size(0) * (group.rank() + 1) / group.size());
}

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [](comm::Runtime& runtime) {
    comm::Communicator& world = runtime.world();
    const at::Tensor rows = own_rows(world);
    const auto table = ml::make_table(world, {.x = rows});
    ml::KMeans kmeans({.n_clusters = 3});
    kmeans.fit(*table);

    // What is said of rows needs nobody else; a score is of all ranks' rows.
    const at::Tensor labels = kmeans.predict(rows);
    fmt::print("rank {} of {}: {} rows, {} of them in the first cluster\n", world.rank(), world.size(), rows.size(0),
               labels.eq(0).sum().item<std::int64_t>());
    const double squared = -kmeans.score(*table) / static_cast<double>(table->rows());
    if (squared > 3) fail(Fault::Internal, fmt::format("rows are {} from their centroids, squared, not 2", squared));
    if (world.rank() != 0) return;
    for (std::int64_t cluster = 0; cluster < kmeans.cluster_centers().size(0); ++cluster) {
      const at::Tensor center = kmeans.cluster_centers()[cluster];
      fmt::print("centroid {}: {:.3f}, {:.3f}\n", cluster, center[0].item<double>(), center[1].item<double>());
    }
  });
}
