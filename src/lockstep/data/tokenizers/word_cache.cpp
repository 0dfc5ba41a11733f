#include "lockstep/data/tokenizers/word_cache.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kSlots = std::size_t{1} << 17;  // 3 MiB; all of Shakespeare has some 45,000 different words
constexpr std::size_t kMostWords = kSlots / 2;

}  // namespace

/// Where it is, or where it would go.
std::size_t WordCache::slot_of(std::string_view word, std::uint64_t hash) const noexcept {
  std::size_t place = hash % kSlots;
  for (; slots_[place].count > 0; place = (place + 1) % kSlots) {
    const Slot& slot = slots_[place];
    if (slot.hash == hash && std::string_view(words_.data() + slot.word, slot.bytes) == word) break;
  }
  return place;
}

std::span<const std::int32_t> WordCache::find(std::string_view word, std::uint64_t hash) const noexcept {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[slot_of(word, hash)];
  return std::span(ids_).subspan(slot.ids, slot.count);
}

void WordCache::add(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids) {
  if (slots_.empty() || used_ == kMostWords) clear();
  slots_[slot_of(word, hash)] = {hash, static_cast<std::uint32_t>(words_.size()),
                                 static_cast<std::uint32_t>(ids_.size()), static_cast<std::uint8_t>(word.size()),
                                 static_cast<std::uint8_t>(ids.size())};
  words_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

void WordCache::clear() {
  slots_.assign(kSlots, {});
  words_.clear();
  ids_.clear();
  used_ = 0;
}

}  // namespace lockstep::data
