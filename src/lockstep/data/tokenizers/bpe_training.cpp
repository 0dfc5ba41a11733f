#include "lockstep/data/tokenizers/bpe_training.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/tokenizers/byte_alphabet.h"
#include "lockstep/data/utf8.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const noexcept { return hash64(&pair, sizeof pair); }
};

struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count = 0;
};

/// The most frequent first, then the lowest ids.
struct Candidate {
  std::int64_t count = 0;
  Pair pair;
  bool operator<(const Candidate& other) const noexcept {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Learner {
 public:
  explicit Learner(const WordCounts& words) {
    for (const auto byte : bytes_in_order()) {
      byte_ids_[byte] = add_token(std::string(1, static_cast<char>(byte)));
    }
    for (const auto& [text, count] : words) add_word(text, count);
    for (const auto& [pair, state] : pairs_) candidates_.push({state.count, pair});
  }

  void learn(std::size_t most_tokens, std::int64_t least_count) {
    while (vocabulary_.tokens.size() < most_tokens && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const std::int64_t count = count_of(best.pair);
      if (count != best.count) {  // other merges have taken some of it since
        if (count > 0) candidates_.push({count, best.pair});
        continue;
      }
      if (count < least_count) return;
      merge(best.pair);
    }
  }

  BpeVocabulary take() { return std::move(vocabulary_); }

 private:
  struct PairState {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;  // that have or had it
  };

  std::int32_t add_token(std::string token) {
    const auto [place, added] =
        ids_.try_emplace(std::move(token), static_cast<std::int32_t>(vocabulary_.tokens.size()));
    // Two pairs may make the same token: (a, bc) and (ab, c).
    if (added) vocabulary_.tokens.push_back(place->first);
    return place->second;
  }

  void add_word(const std::string& text, std::int64_t count) {
    Word word{{}, count};
    for (const char c : text) word.ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    const auto number = static_cast<std::uint32_t>(words_.size());
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) change({word.ids[i], word.ids[i + 1]}, count, number);
    words_.push_back(std::move(word));
  }

  std::int64_t count_of(const Pair& pair) const {
    const auto found = pairs_.find(pair);
    return found == pairs_.end() ? 0 : found->second.count;
  }

  void change(const Pair& pair, std::int64_t by, std::uint32_t word) {
    auto& state = pairs_[pair];
    state.count += by;
    if (by > 0 && (state.words.empty() || state.words.back() != word)) state.words.push_back(word);
  }

  void merge(const Pair& pair) {
    const std::int32_t result = add_token(vocabulary_.tokens[pair.first] + vocabulary_.tokens[pair.second]);
    vocabulary_.merges.push_back({pair.first, pair.second, result});
    const auto words = std::move(pairs_.at(pair).words);
    grown_.clear();
    for (const auto word : words) merge_in(word, pair, result);
    pairs_.erase(pair);
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const auto& other : grown_) {
      if (const std::int64_t count = count_of(other); count > 0) candidates_.push({count, other});
    }
  }

  void merge_in(std::uint32_t number, const Pair& pair, std::int32_t result) {
    auto& [ids, count] = words_[number];
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + 1 == ids.size() || Pair{ids[i], ids[i + 1]} != pair) {
        ids[kept++] = ids[i];
        continue;
      }
      if (kept > 0) replace({ids[kept - 1], pair.first}, {ids[kept - 1], result}, count, number);
      if (i + 2 < ids.size()) replace({pair.second, ids[i + 2]}, {result, ids[i + 2]}, count, number);
      ids[kept++] = result;
      ++i;
    }
    ids.resize(kept);
  }

  void replace(const Pair& old, const Pair& other, std::int64_t count, std::uint32_t word) {
    change(old, -count, word);
    change(other, count, word);
    grown_.push_back(other);
  }

  BpeVocabulary vocabulary_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, kByteValues> byte_ids_{};
  std::vector<Word> words_;
  std::unordered_map<Pair, PairState, PairHash> pairs_;
  std::priority_queue<Candidate> candidates_;
  std::vector<Pair> grown_;  // by the merge at hand
};

void check(const BpeTraining& options) {
  const auto least = static_cast<std::int64_t>(kByteValues + options.specials.size());
  if (options.vocabulary < least || options.vocabulary > std::numeric_limits<std::int32_t>::max()) {
    fail(Fault::Usage, fmt::format("a vocabulary of {} tokens cannot be learnt: it takes 256 for the bytes and {} for "
                                   "special tokens, and at most 2^31 - 1 in all",
                                   options.vocabulary, options.specials.size()));
  }
}

void add_specials(const std::vector<std::string>& specials, BpeVocabulary& vocabulary) {
  std::vector<std::string> names;
  for (const auto& token : vocabulary.tokens) names.push_back(to_alphabet(token));
  std::sort(names.begin(), names.end());
  for (auto special = specials.begin(); special != specials.end(); ++special) {
    if (special->empty() || !is_utf8(*special)  // encoder.json can hold nothing else
    ) {
      fail(Fault::Usage, fmt::format("'{}' cannot be a special token: it is no text in UTF-8", *special));
    }
    if (std::binary_search(names.begin(), names.end(), *special) ||
        std::find(specials.begin(), special, *special) != special) {
      fail(Fault::Usage, fmt::format("'{}' cannot be a special token: another token has its name", *special));
    }
    vocabulary.specials.push_back(static_cast<std::int32_t>(vocabulary.tokens.size()));
    vocabulary.tokens.push_back(*special);
  }
}

}  // namespace

BpeVocabulary train_bpe(const WordCounts& words, const BpeTraining& options) {
  const profile::Span span("train bpe");
  check(options);
  Learner learner(words);
  learner.learn(static_cast<std::size_t>(options.vocabulary) - options.specials.size(),
                std::max<std::int64_t>(options.least_count, 1));
  BpeVocabulary vocabulary = learner.take();
  add_specials(options.specials, vocabulary);
  return vocabulary;
}

}  // namespace lockstep::data
