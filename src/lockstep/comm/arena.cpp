#include "lockstep/comm/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/comm/pages.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kUnit = 128;
// Giving pages back costs a fault each when they are used again.
constexpr std::size_t kGiveBackBytes = std::size_t{16} << 20;

}  // namespace

Arena::Arena(std::shared_ptr<void> memory, std::byte* base, std::size_t bytes)
    : memory_(std::move(memory)), base_(base), bytes_(bytes) {
  if (bytes > 0) free_.emplace(0, bytes);
}

std::byte* Arena::allocate(std::size_t bytes) {
  const std::size_t wanted =
      round_up(std::clamp<std::size_t>(bytes, 1, bytes_ + 1), kUnit);  // no more: it could overflow
  const std::size_t alignment = wanted >= kHugePage ? kHugePage : wanted >= kPage ? kPage : kUnit;
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    const std::size_t lost = round_up(piece->first, alignment) - piece->first;
    if (piece->second < lost + wanted) continue;
    if (best == free_.end() || piece->second < best->second) best = piece;
  }
  if (best == free_.end()) {
    fail(Fault::Comm,
         fmt::format("{} bytes of shared memory asked for, {} of {} in use on this rank; free some tensors "
                     "or use ordinary ones",
                     bytes, used_bytes_, bytes_));
  }
  const auto [start, length] = *best;
  const std::size_t offset = round_up(start, alignment);
  free_.erase(best);
  if (offset > start) free_.emplace(start, offset - start);
  if (start + length > offset + wanted) free_.emplace(offset + wanted, start + length - offset - wanted);
  used_.emplace(offset, wanted);
  used_bytes_ += wanted;
  if (wanted >= kHugePage) madvise(base_ + offset, wanted, MADV_HUGEPAGE);
  return base_ + offset;
}

std::byte* Arena::allocate_zeroed(std::size_t bytes) {
  std::byte* const piece = allocate(bytes);
  std::size_t pages = bytes >= kPage ? bytes / kPage * kPage : 0;  // such a piece starts on a page
  if (pages > 0 && madvise(piece, pages, MADV_REMOVE) != 0) pages = 0;
  std::memset(piece + pages, 0, bytes - pages);
  return piece;
}

void Arena::release(std::byte* piece) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(static_cast<std::size_t>(piece - base_));
  if (found == used_.end()) return;
  auto [offset, bytes] = *found;
  used_.erase(found);
  used_bytes_ -= bytes;
  if (bytes >= kGiveBackBytes) madvise(base_ + round_up(offset, kPage), bytes / kPage * kPage, MADV_REMOVE);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

std::size_t Arena::used_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

}  // namespace lockstep::comm
