// Shuffled so that a disk still reads long runs: blocks of consecutive samples come in a
// random order, and the samples of a window of blocks at random among each other.
#include <algorithm>

#include "lockstep/core/error.h"
#include "lockstep/core/random.h"
#include "lockstep/data/order.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

class Blocked final : public Order {
 public:
  explicit Blocked(const OrderOptions& options)
      : samples_(static_cast<std::uint64_t>(options.samples)),
        block_(static_cast<std::uint64_t>(options.block)),
        window_(static_cast<std::uint64_t>(options.window)),
        seed_(options.seed) {
    if (options.block < 1) fail(Fault::Usage, "a block has at least 1 sample");
    if (options.window < 1) fail(Fault::Usage, "a window has at least 1 block");
    blocks_ = (samples_ + block_ - 1) / block_;
    missing_ = blocks_ * block_ - samples_;
  }

  std::int64_t length() const noexcept override { return static_cast<std::int64_t>(samples_); }

  std::int64_t at(std::int64_t epoch, std::int64_t position) const noexcept override {
    const std::uint64_t key = mix(seed_, static_cast<std::uint64_t>(epoch));
    const Permutation order(blocks_, key);
    const std::uint64_t short_turn = order.inverse(blocks_ - 1);
    const auto begin_of = [&](std::uint64_t turn) { return turn * block_ - (turn > short_turn ? missing_ : 0); };

    const auto place = static_cast<std::uint64_t>(position);
    const std::uint64_t window = turn_of(place, short_turn) / window_;
    const std::uint64_t begin = begin_of(window * window_);
    const std::uint64_t end = begin_of(std::min((window + 1) * window_, blocks_));
    const Permutation inside(end - begin, mix(key, window));
    const std::uint64_t shuffled = begin + inside(place - begin);
    const std::uint64_t turn = turn_of(shuffled, short_turn);
    return static_cast<std::int64_t>(order(turn) * block_ + shuffled - begin_of(turn));
  }

 private:
  /// Whose turn it is at a place, when the short block has its turn as number `short_turn`.
  std::uint64_t turn_of(std::uint64_t place, std::uint64_t short_turn) const noexcept {
    const std::uint64_t short_end = (short_turn + 1) * block_ - missing_;
    return (place >= short_end ? place + missing_ : place) / block_;
  }

  std::uint64_t samples_;
  std::uint64_t block_;
  std::uint64_t window_;
  std::uint64_t seed_;
  std::uint64_t blocks_ = 0;
  std::uint64_t missing_ = 0;  // from the last block
};

const OrderRegistry::Add registered{"blocked", "Shuffled in blocks, so that reads stay sequential",
                                    [](const OrderOptions& options) { return std::make_unique<Blocked>(options); }};

}  // namespace
}  // namespace lockstep::data
