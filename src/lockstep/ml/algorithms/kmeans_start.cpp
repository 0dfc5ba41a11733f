#include "lockstep/ml/algorithms/kmeans_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"

namespace lockstep::ml {

void KMeansBeginning::check() const {
  if (!centers.defined()) (void)KMeansStarts::instance().at("init", init);
}

void KMeansBeginning::check_for(const Table& table, std::int64_t clusters) const {
  if (table.rows() < clusters) {
    fail(Fault::Usage, fmt::format("{} rows for {} clusters; use fewer clusters", table.rows(), clusters));
  }
  if (centers.defined() && centers.sizes() != at::IntArrayRef({clusters, table.columns()})) {
    fail(Fault::Usage, fmt::format("centers to begin with are [{}], and {} clusters of {} columns are wanted",
                                   fmt::join(centers.sizes(), ", "), clusters, table.columns()));
  }
}

std::int64_t KMeansBeginning::starts(std::int64_t n_init, std::int64_t of_random) const {
  if (centers.defined()) return 1;
  if (n_init > 0) return n_init;
  return init == "random" ? of_random : 1;
}

at::Tensor KMeansBeginning::operator()(const Table& table, std::int64_t clusters, std::uint64_t seed,
                                       int threads) const {
  if (centers.defined()) return centers.to(at::kDouble).contiguous().clone();
  return KMeansStarts::instance().at("init", init)(table, clusters, seed, threads);
}

}  // namespace lockstep::ml
