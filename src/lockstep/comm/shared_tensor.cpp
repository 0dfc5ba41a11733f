#include "lockstep/comm/shared_tensor.h"

#include <cstring>

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>

namespace lockstep::comm {
namespace {

class ArenaAllocator;

// Owns a piece of the arena, and the allocator that the tensor's storage points to.
struct Piece {
  std::shared_ptr<ArenaAllocator> allocator;
  std::byte* memory;
};

class ArenaAllocator final : public c10::Allocator, public std::enable_shared_from_this<ArenaAllocator> {
 public:
  explicit ArenaAllocator(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto piece = std::make_unique<Piece>(Piece{shared_from_this(), nullptr});
    piece->memory = arena_->allocate(bytes);
    void* memory = piece->memory;
    return {memory, piece.release(), &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void release(void* context) {
    const std::unique_ptr<Piece> piece(static_cast<Piece*>(context));
    piece->allocator->arena_->release(piece->memory);
  }

  std::shared_ptr<Arena> arena_;
};

}  // namespace

at::Tensor empty_in_arena(const std::shared_ptr<Arena>& arena, at::IntArrayRef sizes, at::ScalarType type) {
  const auto allocator = std::make_shared<ArenaAllocator>(arena);
  return at::Tensor(at::detail::empty_generic(sizes, allocator.get(), c10::DispatchKeySet(c10::DispatchKey::CPU), type,
                                              std::nullopt));
}

}  // namespace lockstep::comm
