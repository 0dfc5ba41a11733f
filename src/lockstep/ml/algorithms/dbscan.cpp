#include "lockstep/ml/algorithms/dbscan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/ml/algorithms/dbscan/slabs.h"
#include "lockstep/ml/algorithms/dbscan/vicinity.h"
#include "lockstep/ml/check_option.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/moments.h"
#include "lockstep/ml/too_large.h"
#include "lockstep/ml/union_find.h"

namespace lockstep::ml {
namespace {

using dbscan::Points;
using Numbers = std::vector<std::int64_t>;

void sort_unique(auto& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Sets of core rows that ranks have found each by itself, named by a row, as clusters.
class Clusters {
 public:
  /// `sets` are those of this rank's points; `theirs` what the owners of copies call the sets of these, by point. A
  /// collective.
  Clusters(comm::Communicator& group, const Points& points, const Numbers& sets, const Numbers& theirs) {
    std::vector<std::pair<std::int64_t, std::int64_t>> same;
    for (std::int64_t point = 0; point < points.count(); ++point) {
      const auto place = static_cast<std::size_t>(point);
      if (sets[place] >= 0) same.emplace_back(sets[place], point < points.own ? sets[place] : theirs[place]);
    }
    sort_unique(same);
    Numbers own;
    for (const auto& [set, other] : same) own.insert(own.end(), {set, other});
    const Numbers all = comm::gather_values(group, own);
    names_ = all;
    sort_unique(names_);
    UnionFind connected(names_.size());
    for (std::size_t i = 0; i < all.size(); i += 2) connected.unite(place_of(all[i]), place_of(all[i + 1]));
    // Names are row numbers: the lowest of a cluster is that of its first core row.
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto first = static_cast<std::size_t>(connected.find(static_cast<std::int32_t>(i)));
      labels_.push_back(first == i ? count_++ : labels_[first]);
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t label_of(std::int64_t set) const { return labels_[static_cast<std::size_t>(place_of(set))]; }

 private:
  std::int32_t place_of(std::int64_t set) const {
    return static_cast<std::int32_t>(std::lower_bound(names_.begin(), names_.end(), set) - names_.begin());
  }

  Numbers names_, labels_;
  std::int64_t count_ = 0;
};

}  // namespace

DBSCAN::DBSCAN(DBSCANOptions options) : options_(options) {
  if (!(options_.eps > 0) || std::isinf(options_.eps)) {
    fail(Fault::Usage, fmt::format("eps = {}: it is a finite number above 0", options_.eps));
  }
  check_from_one_on(options_.min_samples, "min_samples");
  if (options_.threads == 0) options_.threads = at::get_num_threads();
}

void DBSCAN::fit(const Table& table) {
  check_finite(table);
  // Where rows are spread most, the fewest are near in that column.
  const Moments columns = moments(table, options_.threads);
  check_weight(columns.weight);
  if (!(columns.max - columns.min).square().sum().isfinite().item<bool>()) fail_of_large_squares();
  const std::int64_t widest = columns.variance().argmax().item<std::int64_t>();
  dbscan::Slabs slabs(table, widest, options_.eps);
  Points& points = slabs.points();
  const dbscan::Reach reach{options_.eps, static_cast<double>(options_.min_samples), options_.threads,
                            table.observer().get()};
  auto vicinity = dbscan::by_grid(points, reach);
  if (!vicinity) vicinity = dbscan::by_window(points, reach, widest);

  vicinity->find_core();
  Numbers core(points.core.begin(), points.core.end());
  slabs.share(core);
  std::copy(core.begin(), core.end(), points.core.begin());

  const Numbers sets = vicinity->connect();
  Numbers theirs = sets;
  slabs.share(theirs);
  const Clusters clusters(table.group(), points, sets, theirs);
  n_clusters_ = clusters.count();

  Numbers labels;
  for (const std::int64_t set : sets) labels.push_back(set < 0 ? -1 : clusters.label_of(set));
  vicinity->adopt(labels);
  const auto of_rows = [&](const Numbers& values) {
    const Numbers rows = slabs.of_rows(values);
    at::Tensor result = at::empty({table.own_rows()}, at::kLong);
    std::copy(rows.begin(), rows.end(), result.mutable_data_ptr<std::int64_t>());
    return result;
  };
  labels_ = of_rows(labels);
  core_ = of_rows(core).to(at::kBool);
}

}  // namespace lockstep::ml
