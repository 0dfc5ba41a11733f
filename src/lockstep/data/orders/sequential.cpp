#include "lockstep/data/order.h"

namespace lockstep::data {
namespace {

class Sequential final : public Order {
 public:
  explicit Sequential(const OrderOptions& options) : length_(options.samples) {}
  std::int64_t length() const noexcept override { return length_; }
  std::int64_t at(std::int64_t, std::int64_t position) const noexcept override { return position; }

 private:
  std::int64_t length_;
};

const OrderRegistry::Add registered{"sequential", "As stored",
                                    [](const OrderOptions& options) { return std::make_unique<Sequential>(options); }};

}  // namespace
}  // namespace lockstep::data
