#include "lockstep/data/block_cache.h"

namespace lockstep::data {

std::shared_ptr<const std::string> BlockCache::get(const Key& key, const std::function<std::string()>& unpack) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    auto& place = entries_[key];
    if (!place) {
      place = std::make_shared<Entry>();
      ages_.push_front(key);
      place->age = ages_.begin();
    }
    ages_.splice(ages_.begin(), ages_, place->age);
    entry = place;
  }
  const std::lock_guard unpacking(entry->unpacking);
  if (entry->bytes) return entry->bytes;
  // Who throws leaves it to the next one to try.
  auto bytes = std::make_shared<const std::string>(unpack());
  const std::lock_guard lock(mutex_);  // shrink() looks at the bytes of all
  entry->bytes = std::move(bytes);
  const auto mine = entries_.find(key);
  if (mine != entries_.end() && mine->second == entry) {
    bytes_ += entry->bytes->size();
    shrink();
  }
  return entry->bytes;
}

void BlockCache::shrink() {
  while (bytes_ > most_bytes_ && ages_.size() > least_blocks_) {
    const auto oldest = entries_.find(ages_.back());
    if (oldest->second->bytes) bytes_ -= oldest->second->bytes->size();
    entries_.erase(oldest);
    ages_.pop_back();
  }
}

}  // namespace lockstep::data
