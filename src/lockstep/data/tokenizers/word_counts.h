// lockstep/data/tokenizers/word_counts.h
//
// How often each word of a text occurs: all that a vocabulary is learnt from.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lockstep/core/hash.h"

namespace lockstep::data {

struct TextHash {
  using is_transparent = void;  // NOLINT: the name that the library looks for
  std::size_t operator()(std::string_view text) const noexcept { return hash64(text); }
};
using WordCounts = std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>>;

/// Adds those of `text`, counted on all cores of this process. What goes on for more than 1 KiB without
/// a space is no word but data, and is left out.
void count_words(std::string_view text, WordCounts& counts);

}  // namespace lockstep::data
