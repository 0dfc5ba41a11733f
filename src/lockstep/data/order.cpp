#include "lockstep/data/order.h"

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {

std::unique_ptr<Order> make_order(const std::string& name, const OrderOptions& options) {
  if (options.samples < 1) fail(Fault::Usage, "there are no samples to put into an order");
  return OrderRegistry::instance().at("order", name)(options);
}

}  // namespace lockstep::data
