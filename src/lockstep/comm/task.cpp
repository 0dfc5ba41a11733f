#include "lockstep/comm/task.h"

#include <array>
#include <new>

namespace lockstep::comm {
namespace {

// Frames of a thread wait here for the next Task. Sizes are those of a few
// coroutines, so a short list found by size does.
struct FrameCache {
  struct Slot {
    void* frame = nullptr;
    std::size_t bytes = 0;
  };
  std::array<Slot, 8> slots;

  ~FrameCache();
};
thread_local FrameCache frames;
// A Runtime that is a static object performs its last collectives after the main
// thread's own objects have gone.
constinit thread_local bool frames_gone = false;

FrameCache::~FrameCache() {
  frames_gone = true;
  for (const Slot& slot : slots) ::operator delete(slot.frame);
}

}  // namespace

void* Task::promise_type::operator new(std::size_t bytes) {
  if (frames_gone) return ::operator new(bytes);
  for (auto& slot : frames.slots) {
    if (slot.bytes == bytes && slot.frame != nullptr) return std::exchange(slot.frame, nullptr);
  }
  return ::operator new(bytes);
}

void Task::promise_type::operator delete(void* frame, std::size_t bytes) noexcept {
  if (frames_gone) return ::operator delete(frame);
  for (auto& slot : frames.slots) {
    if (slot.frame == nullptr) {
      slot = {frame, bytes};
      return;
    }
  }
  ::operator delete(frame);
}

}  // namespace lockstep::comm
