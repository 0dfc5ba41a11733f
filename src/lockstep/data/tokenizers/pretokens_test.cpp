#include "lockstep/data/tokenizers/pretokens.h"

#include "lockstep/data/tokenizers/golden.h"
#include "lockstep/data/tokenizers/unicode.h"
#include "lockstep/data/tokenizers/word_counts.h"

namespace lockstep::data {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for_each_pretoken(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(Pretokens, AreThoseOfTheReference) {
  for (const auto& golden : golden_texts()) {
    std::vector<std::size_t> ends;
    std::size_t end = 0;
    for (const auto& word : words_of(golden.text)) ends.push_back(end += word.size());
    EXPECT_EQ(ends, golden.words_end) << golden.text;
  }
}

TEST(Pretokens, TakeOneSpaceAlong) {
  EXPECT_EQ(words_of("a  b \n c\t\td "), (std::vector<std::string>{"a", " ", " b", " \n", " c", "\t", "\t", "d", " "}));
  EXPECT_EQ(words_of("we'll 'll"), (std::vector<std::string>{"we", "'ll", " '", "ll"}));
  EXPECT_TRUE(words_of("").empty());
}

TEST(Pretokens, KeepEveryByteOfBrokenText) {
  for (const auto& text : broken_texts()) {
    std::string joined;
    for (const auto& word : words_of(text)) {
      EXPECT_FALSE(word.empty());
      joined += word;
    }
    EXPECT_EQ(joined, text);
  }
}

TEST(Pretokens, AreTheSameWhereverTextIsCutSafely) {
  std::vector<std::string> texts = broken_texts();
  for (const auto& golden : golden_texts()) texts.push_back(golden.text);
  for (const auto& text : texts) {
    EXPECT_LE(safe_cut(text, 0), text.size());
    for (std::size_t from = 0; from <= text.size(); ++from) {
      const std::size_t cut = safe_cut(text, from);
      ASSERT_GE(cut, from);
      auto parts = words_of(std::string_view(text).substr(0, cut));
      for (auto& word : words_of(std::string_view(text).substr(cut))) parts.push_back(std::move(word));
      EXPECT_EQ(parts, words_of(text)) << "cut at " << cut << ": " << text;
    }
  }
}

TEST(Unicode, KnowsTheKindsBeyondAscii) {
  const auto kind = [](std::string_view text) { return char_at(text, 0).kind; };
  EXPECT_EQ(kind("é"), CharKind::Letter);
  EXPECT_EQ(kind("日"), CharKind::Letter);
  EXPECT_EQ(kind("𝒳"), CharKind::Letter);
  EXPECT_EQ(kind("½"), CharKind::Number);
  EXPECT_EQ(kind("Ⅷ"), CharKind::Number);
  EXPECT_EQ(kind("\u00a0"), CharKind::Space);
  EXPECT_EQ(kind("\u3000"), CharKind::Space);
  EXPECT_EQ(kind("\u200b"), CharKind::Other);
  EXPECT_EQ(kind("\u0301"), CharKind::Other);
  EXPECT_EQ(kind("😀"), CharKind::Other);
  EXPECT_EQ(char_at("😀", 0).bytes, 4);
}

TEST(WordCounts, AreTheSameOnSeveralThreads) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += " word" + std::to_string(i % 1000) + (i % 7 == 0 ? ",\n\n" : "");
  WordCounts counts, wanted;
  count_words(text, counts);
  for (const auto& word : words_of(text)) ++wanted[word];
  EXPECT_EQ(counts, wanted);
  count_words(" word1", counts);
  EXPECT_EQ(counts[" word"], wanted[" word"] + 1);
}

TEST(WordCounts, LeaveOutWhatIsNoWord) {
  WordCounts counts;
  count_words(std::string(5000, 'a') + " b", counts);
  EXPECT_EQ(counts, (WordCounts{{" b", 1}}));
}

}  // namespace
}  // namespace lockstep::data
