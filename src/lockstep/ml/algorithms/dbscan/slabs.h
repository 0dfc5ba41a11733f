// lockstep/ml/algorithms/dbscan/slabs.h
//
// The rows of a table spread anew: each rank gets those of an interval of one column, and
// copies of the rows of other ranks that may be near to one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/ml/algorithms/dbscan/vicinity.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml::dbscan {

/// What has no word of its rank is a collective.
class Slabs {
 public:
  /// The table must live as long.
  Slabs(const Table& table, std::int64_t column, double eps);

  /// Of this rank.
  Points& points() noexcept { return points_; }

  /// `values` by point, known of own points: now also of copies.
  void share(std::vector<std::int64_t>& values) const;
  /// Of own points, as values of the rows that this rank has of the table, in their order.
  std::vector<std::int64_t> of_rows(const std::vector<std::int64_t>& values) const;

 private:
  /// Which slab a value lies in.
  int slab_of(double value) const;
  void choose_edges(const std::vector<double>& values);

  const Table& table_;
  std::vector<double> edges_;                       // between slabs
  std::vector<std::vector<std::int64_t>> sent_;     // by rank: rows of the table that went there
  std::vector<std::vector<std::int64_t>> copied_;   // by rank: own points of which it has copies
  std::vector<std::int64_t> received_, of_others_;  // by rank: own points that came from it, copies of its points
  Points points_;
};

}  // namespace lockstep::ml::dbscan
