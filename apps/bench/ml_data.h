// apps/bench/ml_data.h
//
// The matrices that `lockstep bench ml` fits, the same for us and the peers: .npy files
// that have no name any more, so that nothing is left of them however the benchmark ends.
// A matrix of more rows begins with the rows of a smaller one.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/ScalarType.h>

#include "lockstep/core/handle.h"
#include "lockstep/ml/table.h"

namespace lockstep::apps {

struct MlData {
  enum class Targets : std::uint8_t { None, Real, Binary };

  std::int64_t columns = 20;
  /// They overlap, so that Lloyd's algorithm is far from its end after 20 iterations. Columns of a single one depend on
  /// each other, so that no covariance is 0.
  std::int64_t blobs = 1;
  Targets targets = Targets::None;
  at::ScalarType type = at::kDouble;
  bool operator==(const MlData&) const = default;
};

class MlFiles {
 public:
  /// Makes them, on all cores, saying so.
  MlFiles(const MlData& data, std::int64_t rows);

  /// The paths by which other programs read them while this object lives.
  std::string x() const;
  /// Empty if there are no targets.
  std::string targets() const;

 private:
  FileDescriptor x_, targets_;
};

/// Rows [first, end) of such files, in memory as NumPy would have them.
ml::TableRows load_rows(const std::string& x, const std::string& targets, std::int64_t first, std::int64_t end);

}  // namespace lockstep::apps
