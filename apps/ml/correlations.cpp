#include "ml/correlations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace lockstep::apps {

void print_strongest(const at::Tensor& correlation, const std::vector<std::string>& names) {
  struct Pair {
    double correlation;
    std::size_t one, other;
  };
  std::vector<Pair> pairs;
  for (std::size_t one = 0; one < names.size(); ++one) {
    for (std::size_t other = one + 1; other < names.size(); ++other) {
      const double value = correlation.const_data_ptr<double>()[one * names.size() + other];
      if (!std::isnan(value)) pairs.push_back({value, one, other});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& left, const Pair& right) {
    return std::abs(left.correlation) > std::abs(right.correlation);
  });
  constexpr std::size_t kMost = 10;
  pairs.resize(std::min(pairs.size(), kMost));
  if (!pairs.empty()) fmt::print("strongest correlations\n");
  for (const auto& [value, one, other] : pairs) fmt::print("  {:>8.4f}  {}, {}\n", value, names[one], names[other]);
}

}  // namespace lockstep::apps
