#include "lockstep/comm/shared_tensor.h"

#include <cstring>
#include <deque>
#include <mutex>

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

// Owns a piece of the arena.
struct Piece {
  std::shared_ptr<Arena> arena;
  std::byte* memory = nullptr;
  // Whoever counts the memory of tensors hears of this, too: of its end if of its beginning, whichever thread lets it
  // go.
  std::int64_t bytes = 0;
  std::shared_ptr<c10::ThreadLocalDebugInfo> listeners;
};

void tell_of(const Piece& piece, std::int64_t bytes) {
  constexpr std::size_t kUnknown = 0;
  c10::reportMemoryUsageToProfiler(piece.memory, bytes, kUnknown, kUnknown, c10::Device(c10::DeviceType::CPU));
}

// A storage points to its allocator for as long as it lives, also while it holds no
// memory (resized to nothing), so allocators are never destroyed.
class ArenaAllocator final : public c10::Allocator {
 public:
  explicit ArenaAllocator(const std::shared_ptr<Arena>& arena) : arena_(arena) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto arena = arena_.lock();
    if (!arena) fail(Fault::Usage, "a shared tensor cannot grow any more: the run that it belonged to has ended");
    auto piece = std::make_unique<Piece>();
    piece->arena = std::move(arena);
    piece->memory = piece->arena->allocate(bytes);
    if (c10::memoryProfilingEnabled()) {
      piece->bytes = static_cast<std::int64_t>(bytes);
      piece->listeners = c10::ThreadLocalDebugInfo::current();
      tell_of(*piece, piece->bytes);
    }
    void* memory = piece->memory;
    return {memory, piece.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool serves(const std::shared_ptr<Arena>& arena) const noexcept {
    return !arena_.owner_before(arena) && !arena.owner_before(arena_);
  }

 private:
  static void release(void* context) {
    const std::unique_ptr<Piece> piece(static_cast<Piece*>(context));
    if (piece->listeners != nullptr) {
      const c10::DebugInfoGuard theirs(piece->listeners);
      tell_of(*piece, -piece->bytes);
    }
    piece->arena->release(piece->memory);
  }

  std::weak_ptr<Arena> arena_;
};

ArenaAllocator& allocator_of(const std::shared_ptr<Arena>& arena) {
  static std::mutex mutex;
  static auto& allocators = *new std::deque<ArenaAllocator>;
  const std::lock_guard lock(mutex);
  for (auto allocator = allocators.rbegin(); allocator != allocators.rend(); ++allocator) {
    if (allocator->serves(arena)) return *allocator;
  }
  return allocators.emplace_back(arena);
}

}  // namespace

at::Tensor empty_in_arena(const std::shared_ptr<Arena>& arena, at::IntArrayRef sizes, at::ScalarType type) {
  return at::Tensor(at::detail::empty_generic(sizes, &allocator_of(arena), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              type, std::nullopt));
}

}  // namespace lockstep::comm
