#include "lockstep/core/random.h"

#include <set>
#include <vector>

#include "lockstep/ml/algorithms/kmeans_start.h"

namespace lockstep::ml {
namespace {

/// Different rows, by Floyd's method: each choice is as likely as any other.
at::Tensor random_rows(const Table& table, std::int64_t clusters, std::uint64_t seed, int) {
  Random random(seed, 0);
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> numbers;
  for (std::int64_t last = table.rows() - clusters; last < table.rows(); ++last) {
    const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(last) + 1));
    numbers.push_back(seen.insert(drawn).second ? drawn : last);
    seen.insert(numbers.back());
  }
  return rows_at(table, numbers);
}

const KMeansStarts::Add registered{"random", "Rows that are drawn, each as likely", random_rows};

}  // namespace
}  // namespace lockstep::ml
