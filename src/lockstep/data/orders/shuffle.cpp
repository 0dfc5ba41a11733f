#include "lockstep/core/random.h"
#include "lockstep/data/order.h"
#include "lockstep/data/permutation.h"

namespace lockstep::data {
namespace {

class Shuffle final : public Order {
 public:
  explicit Shuffle(const OrderOptions& options) : length_(options.samples), seed_(options.seed) {}
  std::int64_t length() const noexcept override { return length_; }
  std::int64_t at(std::int64_t epoch, std::int64_t position) const noexcept override {
    const Permutation permutation(static_cast<std::uint64_t>(length_), mix(seed_, static_cast<std::uint64_t>(epoch)));
    return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(position)));
  }

 private:
  std::int64_t length_;
  std::uint64_t seed_;
};

const OrderRegistry::Add registered{"shuffle", "Each epoch all samples once, at random",
                                    [](const OrderOptions& options) { return std::make_unique<Shuffle>(options); }};

}  // namespace
}  // namespace lockstep::data
