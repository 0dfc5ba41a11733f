// A part of a vocabulary gives the text that it was taken for the tokens of the whole.
#include "lockstep/data/tokenizers/bpe_part.h"

#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/tokenizers/bpe_files.h"
#include "lockstep/data/tokenizers/golden.h"

namespace lockstep::data {
namespace {

/// The bytes of each token.
std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> result;
  for (const std::int32_t id : tokenizer.encode(text)) result.push_back(tokenizer.decode(std::span(&id, 1)));
  return result;
}

TEST(BpePart, GivesItsTextTheTokensOfTheWhole) {
  const auto vocabulary = read_bpe(kGoldenFolder);
  const Bpe whole(vocabulary);
  const std::string text = "The whale, the whale! Not so the other one, he says; 1851.\n\n  And then";
  WordCounts words;
  count_words(text, words);
  const auto some = part_for(vocabulary, words);
  const Bpe part(some);
  EXPECT_EQ(pieces(part, text), pieces(whole, text));
  EXPECT_LT(part.vocabulary(), whole.vocabulary());
  EXPECT_GT(part.vocabulary(), 256);
  EXPECT_LT(part.encode(text).size(), text.size()) << "merges are there";
  EXPECT_EQ(part.specials().size(), whole.specials().size());
  for (const auto& golden : golden_texts()) EXPECT_EQ(part.decode(part.encode(golden.text)), golden.text);
  EXPECT_EQ(part_for(some, words), some) << "nothing was too much";
}

TEST(BpePart, OfNothingIsTheBytes) {
  const auto part = part_for(read_bpe(kGoldenFolder), {});
  EXPECT_TRUE(part.merges.empty());
  EXPECT_EQ(part.tokens.size(), 256 + part.specials.size());
}

TEST(BpePart, IsMadeByName) {
  EXPECT_TRUE(has(message_of([] { make_tokenizer("bpe-of"); }, Fault::Usage), "bpe-of:bible or bpe-of:FILE"));
  EXPECT_TRUE(has(message_of([] { make_tokenizer("bpe-of:bibel"); }, Fault::Usage), "did you mean 'bible'?"));
  if (!is_fetched("gpt2-bpe")) GTEST_SKIP() << "lockstep data get gpt2-bpe";
  const Folder folder;
  const std::string text = "In the beginning God created the heaven and the earth.";
  const auto part = make_tokenizer("bpe-of:" + folder.write("text.txt", text));
  EXPECT_EQ(pieces(*part, text), pieces(*make_tokenizer("bpe"), text));
  EXPECT_LT(part->vocabulary(), 350);
}

}  // namespace
}  // namespace lockstep::data
