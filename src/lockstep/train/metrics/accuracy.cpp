#include "lockstep/train/metrics/hit_share.h"

namespace lockstep::train {
namespace {

const MetricRegistry::Add registered{"accuracy", "Share of samples whose likeliest class is right",
                                     [](const MetricSettings&) { return std::make_unique<HitShare>("accuracy", 1); }};

}  // namespace
}  // namespace lockstep::train
