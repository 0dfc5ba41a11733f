#include "lockstep/core/peak_memory.h"

#include <algorithm>
#include <chrono>

#include "lockstep/core/memory_of_process.h"

namespace lockstep {

PeakMemory::PeakMemory() {
  look();
  looker_ = std::thread([this] {
    while (!done_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      look();
    }
  });
}

PeakMemory::~PeakMemory() {
  done_ = true;
  looker_.join();
}

void PeakMemory::look() {
  proportional_ = std::max<std::int64_t>(proportional_, proportional_set_size());
  anonymous_ = std::max<std::int64_t>(anonymous_, anonymous_bytes());
}

}  // namespace lockstep
