// Samples of like length come together, so that a batch needs little padding. Sorted by
// length, the samples form windows; every epoch deals those of a window anew into blocks,
// and the blocks of all windows come in a random order. A batch that divides the block
// lies within one.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/data/order.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

class ByLength final : public Order {
 public:
  explicit ByLength(const OrderOptions& options)
      : sorted_(static_cast<std::size_t>(options.samples)),
        block_(static_cast<std::uint64_t>(options.block)),
        seed_(options.seed) {
    if (static_cast<std::int64_t>(options.lengths.size()) != options.samples) {
      fail(Fault::Usage, fmt::format("the order by_length needs the length of each of {} samples, not of {}",
                                     options.samples, options.lengths.size()));
    }
    if (options.block < 1) fail(Fault::Usage, "a block has at least 1 sample");
    if (options.window < 1) fail(Fault::Usage, "a window has at least 1 block");
    std::iota(sorted_.begin(), sorted_.end(), std::int64_t{0});
    std::stable_sort(sorted_.begin(), sorted_.end(), [&](std::int64_t a, std::int64_t b) {
      return options.lengths[static_cast<std::size_t>(a)] < options.lengths[static_cast<std::size_t>(b)];
    });
    blocks_ = (sorted_.size() + block_ - 1) / block_;
    missing_ = blocks_ * block_ - sorted_.size();
    window_ = std::min(static_cast<std::uint64_t>(options.window), blocks_) * block_;
  }

  std::int64_t length() const noexcept override { return static_cast<std::int64_t>(sorted_.size()); }

  std::int64_t at(std::int64_t epoch, std::int64_t position) const noexcept override {
    const std::uint64_t key = mix(seed_, static_cast<std::uint64_t>(epoch));
    const auto turn = static_cast<std::uint64_t>(position) / block_;
    // One block of the epoch has what is left over. It comes last, and each time from other lengths.
    const std::uint64_t short_block = mix(key, 1) % blocks_;
    std::uint64_t block = short_block;
    if (turn + 1 < blocks_) {
      block = Permutation(blocks_ - 1, key)(turn);
      if (block >= short_block) ++block;
    }
    const std::uint64_t begin = block * block_ - (block > short_block ? missing_ : 0);
    const std::uint64_t place = begin + static_cast<std::uint64_t>(position) % block_;
    const std::uint64_t window = place / window_, first = window * window_;
    const Permutation inside(std::min<std::uint64_t>(window_, sorted_.size() - first), mix(key, 2, window));
    return sorted_[first + inside(place - first)];
  }

 private:
  std::vector<std::int64_t> sorted_;  // samples, by length
  std::uint64_t block_;
  std::uint64_t seed_;
  std::uint64_t blocks_ = 0;
  std::uint64_t missing_ = 0;  // from the short block
  std::uint64_t window_ = 0;   // in samples
};

const OrderRegistry::Add registered{"by_length", "Shuffled, with samples of like length together",
                                    [](const OrderOptions& options) { return std::make_unique<ByLength>(options); }};

}  // namespace
}  // namespace lockstep::data
