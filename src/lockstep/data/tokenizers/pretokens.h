// lockstep/data/tokenizers/pretokens.h
//
// Text is first cut into pre-tokens, words for short, and no token reaches over the end
// of one. The cuts are those of GPT-2's regular expression,
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// written by hand: a word takes the space before it along; of several spaces the last
// one goes with the word.
#pragma once

#include <string_view>

namespace lockstep::data {

/// Of the word that begins at `begin`, inside of `text`.
std::size_t pretoken_end(std::string_view text, std::size_t begin) noexcept;

/// The first place from `from` on where text may be cut in two that have the same words as the
/// whole; its end if there is none.
std::size_t safe_cut(std::string_view text, std::size_t from) noexcept;

/// Calls work(word) for each.
template <class Work>
void for_each_pretoken(std::string_view text, Work work) {
  for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
    end = pretoken_end(text, begin);
    work(text.substr(begin, end - begin));
  }
}

}  // namespace lockstep::data
