#include "lockstep/data/tokenizers/bpe.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/data/tokenizers/bpe_files.h"
#include "lockstep/data/tokenizers/pretokens.h"
#include "lockstep/data/tokenizers/word_cache.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kNone = SIZE_MAX;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) noexcept {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

/// A token of a word that is being merged, in a list of them.
struct Symbol {
  std::int32_t id = 0;
  bool merged_away = false;
  std::size_t previous = kNone;
  std::size_t next = kNone;
};

/// A merge that was possible when it was found; first the one learnt first, then the leftmost.
struct Candidate {
  std::uint32_t rank = 0;
  std::size_t left = 0;
  auto operator<=>(const Candidate&) const = default;
};

/// The next special token of a text, each searched for only once it has been passed.
class SpecialSearch {
 public:
  SpecialSearch(std::string_view text, const BpeVocabulary& vocabulary) : text_(text), vocabulary_(vocabulary) {
    for (const auto id : vocabulary.specials) found_.push_back({text.find(vocabulary.tokens[id]), id});
  }

  struct Found {
    std::size_t at = std::string_view::npos;
    std::int32_t id = -1;
  };
  /// From `from` on; of several at one place the longest.
  Found next(std::size_t from) {
    Found best;
    for (auto& found : found_) {
      if (found.at < from) found.at = text_.find(vocabulary_.tokens[found.id], from);
      if (found.at < best.at || (found.at == best.at && best.id >= 0 && length(found.id) > length(best.id))) {
        best = found;
      }
    }
    return best;
  }

 private:
  std::size_t length(std::int32_t id) const { return vocabulary_.tokens[id].size(); }

  std::string_view text_;
  const BpeVocabulary& vocabulary_;
  std::vector<Found> found_;
};

}  // namespace

struct Bpe::Workspace {
  WordCache cache;
  std::vector<Symbol> symbols;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  std::vector<std::int32_t> ids;  // of the word
};

Bpe::Bpe(BpeVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
  byte_ids_.fill(-1);
  for (std::size_t id = 0; id < vocabulary_.tokens.size(); ++id) {
    const std::string& token = vocabulary_.tokens[id];
    const auto number = static_cast<std::int32_t>(id);
    const bool special = std::binary_search(vocabulary_.specials.begin(), vocabulary_.specials.end(), number);
    if (token.size() == 1 && !special) byte_ids_[static_cast<unsigned char>(token[0])] = number;
  }
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    if (byte_ids_[byte] < 0) fail(Fault::Data, fmt::format("the vocabulary has no token for the byte {:#04x}", byte));
  }
  merges_.reserve(vocabulary_.merges.size());
  for (const auto& merge : vocabulary_.merges) {
    merges_.try_emplace(pair_key(merge.left, merge.right),
                        Ranked{static_cast<std::uint32_t>(merges_.size()), merge.result});
  }
}

Bpe::~Bpe() = default;

const Bpe::Ranked* Bpe::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::push_candidate(Workspace& work, std::size_t left) const {
  if (left == kNone || work.symbols[left].next == kNone) return;
  const auto* merge = merge_of(work.symbols[left].id, work.symbols[work.symbols[left].next].id);
  if (merge != nullptr) work.candidates.push({merge->rank, left});
}

/// Into work.ids. The queue keeps it n log n: a "word" may be a file without a single space.
void Bpe::merge_word(std::string_view word, Workspace& work) const {
  auto& symbols = work.symbols;
  symbols.clear();
  for (std::size_t at = 0; at < word.size(); ++at) {
    symbols.push_back({byte_ids_[static_cast<unsigned char>(word[at])], false, at == 0 ? kNone : at - 1,
                       at + 1 == word.size() ? kNone : at + 1});
  }
  for (std::size_t at = 0; at < symbols.size(); ++at) push_candidate(work, at);
  while (!work.candidates.empty()) {
    const Candidate candidate = work.candidates.top();
    work.candidates.pop();
    Symbol& left = symbols[candidate.left];
    if (left.merged_away || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    const auto* merge = merge_of(left.id, right.id);
    if (merge == nullptr || merge->rank != candidate.rank) continue;  // a neighbour has changed since
    left.id = merge->result;
    left.next = right.next;
    right.merged_away = true;
    if (left.next != kNone) symbols[left.next].previous = candidate.left;
    push_candidate(work, left.previous);
    push_candidate(work, candidate.left);
  }
  work.ids.clear();
  for (std::size_t at = 0; at != kNone; at = symbols[at].next) work.ids.push_back(symbols[at].id);
}

void Bpe::encode_text(std::string_view text, Workspace& work, std::vector<std::int32_t>& ids) const {
  for_each_pretoken(text, [&](std::string_view word) {
    const bool cached = word.size() <= WordCache::kLongestWord;
    const std::uint64_t hash = cached ? hash64(word) : 0;
    if (cached) {
      if (const auto known = work.cache.find(word, hash); !known.empty()) {
        ids.insert(ids.end(), known.begin(), known.end());
        return;
      }
    }
    merge_word(word, work);
    ids.insert(ids.end(), work.ids.begin(), work.ids.end());
    if (cached) work.cache.add(word, hash, work.ids);
  });
}

void Bpe::encode(std::string_view text, std::vector<std::int32_t>& ids, Specials specials) const {
  const auto work = workspaces_.borrow();
  if (specials == Specials::AsText) return encode_text(text, *work, ids);
  SpecialSearch search(text, vocabulary_);
  for (std::size_t at = 0; at < text.size();) {
    const auto special = search.next(at);
    encode_text(text.substr(at, special.at - at), *work, ids);
    if (special.id < 0) return;
    ids.push_back(special.id);
    at = special.at + vocabulary_.tokens[special.id].size();
  }
}

std::string Bpe::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if (ids[place] < 0 || ids[place] >= vocabulary()) {
      fail(Fault::Data,
           fmt::format("token {} at place {} is outside the vocabulary of {}", ids[place], place, vocabulary()));
    }
    text += vocabulary_.tokens[ids[place]];
  }
  return text;
}

std::vector<std::pair<std::string, std::int32_t>> Bpe::specials() const {
  std::vector<std::pair<std::string, std::int32_t>> named;
  for (const auto id : vocabulary_.specials) named.emplace_back(vocabulary_.tokens[id], id);
  return named;
}

void Bpe::save(const std::string& folder) const { write_bpe(vocabulary_, folder); }

}  // namespace lockstep::data
