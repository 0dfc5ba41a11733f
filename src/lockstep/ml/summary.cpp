#include "lockstep/ml/summary.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/complete_products.h"
#include "lockstep/ml/quantiles.h"

namespace lockstep::ml {

Summary summary(const Table& table, const SummaryOptions& options) {
  for (const double share : options.quantiles) {
    if (!(share >= 0 && share <= 1)) fail(Fault::Usage, fmt::format("quantile {}: it is from 0 to 1", share));
  }
  const int threads = options.threads == 0 ? at::get_num_threads() : options.threads;
  std::vector<Fold> parts{moments_fold(table), quantiles_fold(table)};
  std::optional<CompleteProducts> products;
  if (options.products) {
    products.emplace(table, threads);
    parts.push_back(products->fold());
  }
  const auto folded = fold_all(table, threads, "summary", parts);
  Summary result;
  result.moments = moments_of(folded[0]);
  result.quantiles = quantiles_of(folded[1], table.columns(), options.quantiles);
  if (!products) return result;
  result.complete = products->rows(folded[2]);
  if (result.complete > 0) result.gram = products->gram(folded[2]);
  return result;
}

}  // namespace lockstep::ml
