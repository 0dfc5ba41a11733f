// lockstep/data/tokenizer.h
//
// A Tokenizer turns text into the ids of a vocabulary and back. Text is any bytes:
// decode(encode(text)) is `text`, valid UTF-8 or not. It never changes once made, and
// any thread may use it at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/registry.h"

namespace lockstep::data {

/// What "<|endoftext|>" in a text is: 13 letters like any others, or the token of that name. Text of
/// strangers must not be able to end a document, so tokens are made of it only where asked for.
enum class Specials : std::uint8_t { AsText, AsTokens };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends to `ids`.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids, Specials specials) const = 0;
  std::vector<std::int32_t> encode(std::string_view text, Specials specials = Specials::AsText) const {
    std::vector<std::int32_t> ids;
    encode(text, ids, specials);
    return ids;
  }
  /// Fault::Data on an id that the vocabulary has not. Ids need not end at the end of a character.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  /// Ids are from 0 to below it.
  virtual std::int64_t vocabulary() const noexcept = 0;
  /// Names and ids of the special tokens.
  virtual std::vector<std::pair<std::string, std::int32_t>> specials() const { return {}; }
  /// Into a folder, from which the registry makes it again.
  virtual void save(const std::string& folder) const = 0;
};

using TokenizerRegistry = Registry<std::unique_ptr<Tokenizer>(const std::string& folder)>;

/// "bytes", "bpe" (GPT-2's, which must have been fetched), "bpe:FOLDER".
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& source);

}  // namespace lockstep::data
