#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/train/metrics/hit_share.h"

namespace lockstep::train {
namespace {

const MetricRegistry::Add registered{
    "topK", "Share of samples whose class is among the K likeliest: top5", [](const MetricSettings& settings) {
      const std::int64_t most = settings.number;
      if (most < 1) fail(Fault::Usage, "a metric such as top5 says among how many likeliest classes: from 1 on");
      if (settings.classes > 0 && most > settings.classes) {
        fail(Fault::Usage, fmt::format("the metric top{}: there are only {} classes", most, settings.classes));
      }
      return std::make_unique<HitShare>(fmt::format("top{}", most), most);
    }};

}  // namespace
}  // namespace lockstep::train
