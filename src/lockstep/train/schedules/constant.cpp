#include "lockstep/train/schedule.h"

namespace lockstep::train {
namespace {

class Constant final : public Schedule {
 public:
  double factor(std::int64_t) const override { return 1; }
};

const ScheduleRegistry::Add registered{
    "constant", "Always the same",
    [](const Config&, const std::string&, const RunLength&) { return std::make_unique<Constant>(); }};

}  // namespace
}  // namespace lockstep::train
