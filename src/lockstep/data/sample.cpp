#include "lockstep/data/sample.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace lockstep::data {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLeastBlock = std::size_t{64} << 10;

}  // namespace

void Scratch::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

std::span<std::byte> Scratch::take(std::size_t bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  while (block_ < blocks_.size() && used_ + rounded > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max({kLeastBlock, rounded, blocks_.empty() ? 0 : 2 * blocks_.back().size});
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
    if (memory == nullptr) throw std::bad_alloc();
    blocks_.push_back({std::unique_ptr<std::byte, Free>(memory), size});
  }
  std::byte* begin = blocks_[block_].memory.get() + used_;
  used_ += rounded;
  return {begin, bytes};
}

void Scratch::clear() noexcept {
  // One block that holds a whole sample is better than several.
  if (block_ > 0 && block_ < blocks_.size())
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(block_));
  block_ = 0;
  used_ = 0;
}

}  // namespace lockstep::data
