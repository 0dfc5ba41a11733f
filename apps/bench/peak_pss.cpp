#include "bench/peak_pss.h"

#include <algorithm>
#include <chrono>

#include "lockstep/core/memory_of_process.h"

namespace lockstep::apps {

PeakPss::PeakPss() : peak_(proportional_set_size()) {
  looker_ = std::thread([this] {
    while (!done_) {
      peak_ = std::max<std::int64_t>(peak_, proportional_set_size());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
}

PeakPss::~PeakPss() {
  done_ = true;
  looker_.join();
}

}  // namespace lockstep::apps
