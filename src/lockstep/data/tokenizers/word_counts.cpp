#include "lockstep/data/tokenizers/word_counts.h"

#include <vector>

#include "lockstep/data/on_threads.h"
#include "lockstep/data/pool.h"
#include "lockstep/data/tokenizers/pretokens.h"

namespace lockstep::data {
namespace {

/// Threads take 64 at a time (on_threads.h): 1 MiB.
constexpr std::size_t kPieceBytes = 16 << 10;
/// Longer ones would make learning quadratic.
constexpr std::size_t kLongestWord = 1024;

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = safe_cut(text, kPieceBytes);
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

void count_piece(std::string_view piece, WordCounts& counts) {
  for_each_pretoken(piece, [&](std::string_view word) {
    if (word.size() > kLongestWord) return;
    if (const auto known = counts.find(word); known != counts.end()) {
      ++known->second;
    } else {
      counts.emplace(word, 1);
    }
  });
}

}  // namespace

void count_words(std::string_view text, WordCounts& counts) {
  const auto pieces = pieces_of(text);
  Pool<WordCounts> tables;
  on_threads(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t piece, Sample&) {
    count_piece(pieces[static_cast<std::size_t>(piece)], *tables.borrow());
  });
  for (const auto& table : tables.take_all()) {
    for (const auto& [word, count] : *table) counts[word] += count;
  }
}

}  // namespace lockstep::data
