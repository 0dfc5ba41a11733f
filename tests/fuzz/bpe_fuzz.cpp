// tests/fuzz/bpe_fuzz.cpp
//
// Feeds any bytes to the reader of vocabulary files and to the encoder. A zero byte
// ends encoder.json, the next one vocab.bpe, and the rest is a text; all of the input is
// a text for a vocabulary that is known to be good. What is read must survive being
// written and read again, and a text being encoded and decoded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/core/error.h"
#include "lockstep/data/tokenizers/bpe.h"
#include "lockstep/data/tokenizers/bpe_files.h"
#include "lockstep/data/tokenizers/bpe_training.h"
#include "lockstep/data/tokenizers/pretokens.h"

namespace {

using namespace lockstep;
using namespace lockstep::data;

void check(bool holds) {
  if (!holds) std::abort();
}

std::string_view cut_at_zero(std::string_view& bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  const auto part = bytes.substr(0, end);
  bytes.remove_prefix(std::min(end + 1, bytes.size()));
  return part;
}

void check_text(const Bpe& tokenizer, std::string_view text) {
  for (const auto specials : {Specials::AsText, Specials::AsTokens}) {
    const auto ids = tokenizer.encode(text, specials);
    check(ids.size() <= text.size());
    check(tokenizer.decode(ids) == text);
  }
}

void check_cut(std::string_view text) {
  const std::size_t cut = safe_cut(text, text.size() / 2);
  std::vector<std::size_t> whole, parts;
  const auto note = [](std::vector<std::size_t>& lengths) {
    return [&](std::string_view word) { lengths.push_back(word.size()); };
  };
  for_each_pretoken(text, note(whole));
  for_each_pretoken(text.substr(0, cut), note(parts));
  for_each_pretoken(text.substr(cut), note(parts));
  check(whole == parts);
}

void check_files(std::string_view encoder, std::string_view merges, std::string_view text) {
  std::optional<BpeVocabulary> vocabulary;
  try {
    vocabulary = parse_bpe(encoder, merges);
    const Bpe tokenizer(*vocabulary);
    check_text(tokenizer, text);
  } catch (const Error& error) {
    check(error.fault() == Fault::Data && !error.message().empty());
    return;
  }
  const auto written = print_bpe(*vocabulary);
  check(parse_bpe(written.encoder, written.merges) == *vocabulary);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  static const Bpe kGood(train_bpe({{" the", 9}, {"aaa", 8}, {"é", 7}}, {270, 2, {"<|endoftext|>", "<|end"}}));
  check_text(kGood, bytes);
  check_cut(bytes);
  std::string_view rest = bytes;
  const auto encoder = cut_at_zero(rest);
  const auto merges = cut_at_zero(rest);
  check_files(encoder, merges, rest);
  return 0;
}
