// lockstep/data/tokenizers/bpe.h
//
// Byte pair encoding as GPT-2 has it. A text is cut into words (pretokens.h), a word is
// at first its bytes, and neighbours are merged, the pair that was learnt first before
// all others, until none is left that can be.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/data/pool.h"
#include "lockstep/data/tokenizer.h"

namespace lockstep::data {

struct BpeVocabulary {
  struct Merge {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t result = 0;
    bool operator==(const Merge&) const = default;
  };
  std::vector<std::string> tokens;     // by id, the bytes it stands for; each byte alone is one
  std::vector<Merge> merges;           // as learnt, the first first
  std::vector<std::int32_t> specials;  // ids, ascending; their tokens are never empty
  bool operator==(const BpeVocabulary&) const = default;
};

class Bpe final : public Tokenizer {
 public:
  /// Fault::Data if a byte has no token.
  explicit Bpe(BpeVocabulary vocabulary);
  ~Bpe() override;

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& ids, Specials specials) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocabulary() const noexcept override { return static_cast<std::int64_t>(vocabulary_.tokens.size()); }
  std::vector<std::pair<std::string, std::int32_t>> specials() const override;
  void save(const std::string& folder) const override;

 private:
  struct Workspace;
  struct Ranked {
    std::uint32_t rank;
    std::int32_t result;
  };
  const Ranked* merge_of(std::int32_t left, std::int32_t right) const;
  void push_candidate(Workspace& work, std::size_t left) const;
  void merge_word(std::string_view word, Workspace& work) const;
  void encode_text(std::string_view text, Workspace& work, std::vector<std::int32_t>& ids) const;

  BpeVocabulary vocabulary_;
  std::array<std::int32_t, 256> byte_ids_{};
  std::unordered_map<std::uint64_t, Ranked> merges_;
  mutable Pool<Workspace> workspaces_;
};

}  // namespace lockstep::data
