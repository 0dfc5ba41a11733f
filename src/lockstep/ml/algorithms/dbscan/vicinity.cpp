#include "lockstep/ml/algorithms/dbscan/vicinity.h"

#include <algorithm>

namespace lockstep::ml::dbscan {

bool WeightNear::enough() {
  if (sum_ < least_ - doubt_ || surely_enough()) return surely_enough();
  std::sort(near_.begin(), near_.end(), [&](std::int32_t one, std::int32_t other) {
    return points_.number[static_cast<std::size_t>(one)] < points_.number[static_cast<std::size_t>(other)];
  });
  double sum = 0;
  for (const std::int32_t point : near_) sum += points_.weight_of(point);
  return sum >= least_;
}

}  // namespace lockstep::ml::dbscan
