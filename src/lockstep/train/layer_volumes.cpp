#include "lockstep/train/layer_volumes.h"

#include <set>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::train {
namespace {

/// What a link moves in a step.
struct Volumes {
  std::int64_t gradients = 0, activations = 0;
  bool operator==(const Volumes&) const = default;
};

std::int64_t bytes_of(const parallel::Parameter& parameter) {
  return parameter.tensor.requires_grad() ? static_cast<std::int64_t>(parameter.tensor.nbytes()) : 0;
}

}  // namespace

double moved_by_sum(double bytes, int ranks) { return 2 * bytes * (ranks - 1) / ranks; }

std::int64_t trained_bytes(const parallel::ModelCosts& costs) {
  std::int64_t bytes = 0;
  for (const auto& parameter : costs.parameters) bytes += bytes_of(parameter);
  return bytes;
}

double in_pieces(const parallel::Amount& amount, std::int64_t samples, std::int64_t pieces) {
  const std::int64_t least = samples / pieces, larger = samples % pieces;
  const double of_least = least > 0 ? amount.at(least) : 0;
  return of_least * static_cast<double>(pieces - larger) +
         (larger > 0 ? amount.at(least + 1) * static_cast<double>(larger) : 0);
}

std::vector<std::string> volumes_by_layer(const parallel::ModelCosts& whole, const parallel::ModelCosts& split,
                                          int ranks, std::int64_t samples, std::int64_t pieces) {
  std::vector<Volumes> of_link(whole.chain.size());
  std::set<std::string> counted;  // a weight that two links use moves once
  for (std::size_t link = 0; link < of_link.size(); ++link) {
    std::int64_t bytes = 0;
    for (const auto& parameter : whole.parameters) {
      if (parallel::uses(whole.chain[link], parameter.name) && counted.insert(parameter.name).second)
        bytes += bytes_of(parameter);
    }
    const double summed = in_pieces(split.links[link].summed, samples, pieces);
    of_link[link] = {static_cast<std::int64_t>(moved_by_sum(static_cast<double>(bytes), ranks)),
                     static_cast<std::int64_t>(moved_by_sum(summed, ranks))};
  }
  std::vector<std::string> lines;
  for (std::size_t first = 0, last = 0; first < of_link.size(); first = last) {
    for (last = first + 1; last < of_link.size() && of_link[last] == of_link[first];) ++last;
    const auto& name = whole.chain[first].name;
    const auto& [gradients, activations] = of_link[first];
    lines.push_back(
        fmt::format("layer {}: {} of gradients by data {}, {} of activations by tensor {}",
                    last - first == 1 ? name : fmt::format("{} to {}, each", name, whole.chain[last - 1].name),
                    format_bytes(gradients), ranks, format_bytes(activations), ranks));
  }
  return lines;
}

}  // namespace lockstep::train
