#include "lockstep/parallel/weights_agree.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"

namespace lockstep::parallel {

void check_weights_agree(const std::vector<at::Tensor>& weights, comm::Communicator& group) {
  Hasher hasher;
  for (const auto& tensor : weights) hasher.update(tensor.const_data_ptr(), tensor.nbytes());
  check_weights_agree(hasher.hex(), group);
}

void check_weights_agree(const std::string& hash, comm::Communicator& group) {
  const auto hashes = group.gather_bytes(hash);
  std::map<std::string, std::vector<int>> ranks_of;  // by hash
  for (int rank = 0; rank < group.size(); ++rank) {
    ranks_of[hashes[static_cast<std::size_t>(rank)]].push_back(group.world_rank(rank));
  }
  if (ranks_of.size() == 1) return;
  std::vector<std::vector<int>> sides;
  for (auto& [theirs, ranks] : ranks_of) sides.push_back(std::move(ranks));
  // The largest first; of equal ones that of the lowest rank.
  std::sort(sides.begin(), sides.end(), [](const auto& one, const auto& other) {
    return one.size() != other.size() ? one.size() > other.size() : one < other;
  });
  const std::size_t most = sides.front().size();
  const char* remedy = "model, memory or program differs; go on from the last checkpoint";
  if (2 * most <= hashes.size()) {
    fail(Fault::Comm, fmt::format("the weights of ranks {} differ, and no side has most of the ranks, so that which is "
                                  "right is not known: a {}",
                                  fmt::join(sides, " and "), remedy));
  }
  std::vector<int> drifted;
  for (std::size_t side = 1; side < sides.size(); ++side) {
    drifted.insert(drifted.end(), sides[side].begin(), sides[side].end());
  }
  std::sort(drifted.begin(), drifted.end());
  fail(Fault::Comm, fmt::format("the weights of rank {} are not those of the other {} ranks: its {}",
                                fmt::join(drifted, ", "), most, remedy));
}

}  // namespace lockstep::parallel
