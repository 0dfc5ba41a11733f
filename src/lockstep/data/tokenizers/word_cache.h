// lockstep/data/tokenizers/word_cache.h
//
// Words that were encoded before and their ids: most words of a text are repetitions.
// Bounded: when it is full it forgets everything, and the common words are back soon.
// For one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

class WordCache {
 public:
  /// Longer words are rare, and few come again.
  static constexpr std::size_t kLongestWord = 64;

  /// Empty if it is not known; good until the next add(). `hash` is hash64 of the word.
  std::span<const std::int32_t> find(std::string_view word, std::uint64_t hash) const noexcept;
  /// A word of at most kLongestWord bytes that is not known, and its ids, of which it has no more than bytes.
  void add(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t word = 0;  // where it begins in words_
    std::uint32_t ids = 0;   // where they begin in ids_
    std::uint8_t bytes = 0;
    std::uint8_t count = 0;  // 0: free
  };
  std::size_t slot_of(std::string_view word, std::uint64_t hash) const noexcept;
  void clear();

  std::vector<Slot> slots_;  // open addressing
  std::size_t used_ = 0;
  std::string words_;
  std::vector<std::int32_t> ids_;
};

}  // namespace lockstep::data
