#include "lockstep/data/tokenizers/pretokens.h"

#include <algorithm>

#include "lockstep/data/tokenizers/unicode.h"

namespace lockstep::data {
namespace {

std::size_t end_of_run(std::string_view text, std::size_t at, CharKind kind) noexcept {
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

/// 0 if it begins with none.
std::size_t contraction_bytes(std::string_view text) noexcept {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.starts_with(ending)) return ending.size();
  }
  return 0;
}

/// All of the white space, less its last character if a word follows that may want it.
std::size_t end_of_spaces(std::string_view text, std::size_t begin) noexcept {
  std::size_t last = begin, at = begin;
  while (at < text.size()) {
    const Char next = char_at(text, at);
    if (next.kind != CharKind::Space) return last == begin ? at : last;
    last = at;
    at += next.bytes;
  }
  return at;
}

}  // namespace

std::size_t pretoken_end(std::string_view text, std::size_t begin) noexcept {
  if (text[begin] == '\'') {
    if (const auto bytes = contraction_bytes(text.substr(begin)); bytes > 0) return begin + bytes;
  }
  const std::size_t word = begin + (text[begin] == ' ' ? 1 : 0);
  if (word < text.size()) {
    if (const Char first = char_at(text, word); first.kind != CharKind::Space) {
      return end_of_run(text, word, first.kind);
    }
  }
  return end_of_spaces(text, begin);
}

std::size_t safe_cut(std::string_view text, std::size_t from) noexcept {
  const auto is_word = [&](std::size_t at) { return char_at(text, at).kind != CharKind::Space; };
  // Only behind ASCII: the byte before tells then whether a space came before.
  const auto ends_word = [&](std::size_t at) { return static_cast<unsigned char>(text[at]) < 0x80 && is_word(at); };
  for (auto at = text.find(' ', std::max<std::size_t>(from, 1)); at < text.size(); at = text.find(' ', at + 1)) {
    if (at + 1 < text.size() && ends_word(at - 1) && is_word(at + 1)) return at;
  }
  return text.size();
}

}  // namespace lockstep::data
