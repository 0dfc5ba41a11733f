#include "lockstep/data/tokenizers/bpe.h"

#include <atomic>
#include <thread>

#include <fmt/format.h>

#include "lockstep/data/tokenizers/bpe_files.h"
#include "lockstep/data/tokenizers/bpe_training.h"
#include "lockstep/data/tokenizers/byte_alphabet.h"
#include "lockstep/data/tokenizers/golden.h"
#include "lockstep/data/tokenizers/word_cache.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int32_t>;

BpeVocabulary learnt(const BpeTraining& options) {
  WordCounts words;
  count_words(contents(kGoldenFolder + "/text.txt"), words);
  return train_bpe(words, options);
}

/// Bytes, "he", "the", and the special tokens.
BpeVocabulary small() {
  WordCounts words = {{"the", 2}};
  return train_bpe(words, {300, 2, {"<|endoftext|>", "<|end", "<a b é>"}});
}

TEST(Tokenizers, AreMadeByName) {
  const auto bytes = make_tokenizer("bytes");
  EXPECT_EQ(bytes->vocabulary(), 256);
  EXPECT_EQ(bytes->encode("aé"), (Ids{97, 195, 169}));
  EXPECT_EQ(bytes->decode(bytes->encode("aé")), "aé");
  EXPECT_TRUE(has(message_of([&] { bytes->decode(Ids{1, 256}); }), "token 256 at place 1"));
  EXPECT_EQ(make_tokenizer("bpe:" + kGoldenFolder)->vocabulary(), 449);
  EXPECT_TRUE(has(message_of([] { make_tokenizer("bpf:x"); }, Fault::Usage), "did you mean 'bpe'?"));
  EXPECT_TRUE(
      has(message_of([] { make_tokenizer("bpe:/absent"); }, Fault::Usage), "neither encoder.json nor vocab.json"));
}

TEST(Bpe, GivesTheIdsOfTheReference) {
  const auto tokenizer = make_tokenizer("bpe:" + kGoldenFolder);
  for (const auto& golden : golden_texts()) {
    EXPECT_EQ(tokenizer->encode(golden.text), golden.ids) << golden.text;
    EXPECT_EQ(tokenizer->encode(golden.text), golden.ids) << "from the cache: " << golden.text;
    EXPECT_EQ(tokenizer->decode(golden.ids), golden.text);
  }
}

TEST(Bpe, AppendsIds) {
  const Bpe tokenizer(small());
  Ids ids = {7};
  tokenizer.encode("the", ids, Specials::AsText);
  EXPECT_EQ(ids, (Ids{7, 257}));
}

TEST(Bpe, KeepsBrokenTextByteForByte) {
  const auto tokenizer = make_tokenizer("bpe:" + kGoldenFolder);
  for (const auto& text : broken_texts()) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(Bpe, TakesSpecialsForTextUnlessAsked) {
  const Bpe tokenizer(small());
  const std::string text = "the<|endoftext|><|endoftext|><|end<a b é>the";
  EXPECT_EQ(tokenizer.encode(text, Specials::AsTokens), (Ids{257, 258, 258, 259, 260, 257}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Specials::AsTokens)), text);
  for (const auto id : tokenizer.encode(text)) EXPECT_LT(id, 258);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.specials()[0], (std::pair<std::string, std::int32_t>{"<|endoftext|>", 258}));
}

TEST(Bpe, NamesIdsOutsideTheVocabulary) {
  const Bpe tokenizer(small());
  EXPECT_TRUE(has(message_of([&] { tokenizer.decode(Ids{1, 300}); }), "token 300 at place 1 is outside"));
  EXPECT_TRUE(has(message_of([&] { tokenizer.decode(Ids{-1}); }), "token -1"));
}

TEST(Bpe, IsUsedByManyThreads) {
  const auto tokenizer = make_tokenizer("bpe:" + kGoldenFolder);
  const auto texts = golden_texts();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        for (const auto& golden : texts) wrong += tokenizer->encode(golden.text) != golden.ids;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Bpe, TakesAWordAsLongAsAFile) {
  const Bpe tokenizer(learnt({}));
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(BpeFiles, AreWrittenAsTheyAreRead) {
  const Folder folder;
  make_tokenizer("bpe:" + kGoldenFolder)->save(folder / "copy");
  EXPECT_EQ(contents(folder / "copy/encoder.json"), contents(kGoldenFolder + "/encoder.json"));
  EXPECT_EQ(contents(folder / "copy/vocab.bpe"), contents(kGoldenFolder + "/vocab.bpe"));
  write_bpe(small(), folder / "small");
  EXPECT_EQ(read_bpe(folder / "small"), small());
}

TEST(BpeFiles, MayHaveTheirOtherNames) {
  const Folder folder;
  const auto texts = print_bpe(small());
  folder.write("vocab.json", texts.encoder);
  folder.write("merges.txt", texts.merges);
  EXPECT_EQ(read_bpe(folder / ""), small());
}

TEST(BpeFiles, NameWhatIsWrong) {
  const auto [encoder, merges] = print_bpe(small());
  const auto message = [&](const std::string& names, const std::string& lines) {
    return message_of([&] { Bpe(parse_bpe(names, lines)); });
  };
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = encoder;
    return text.replace(text.find(from), from.size(), to);
  };
  EXPECT_TRUE(has(message(encoder.substr(0, 100), merges), "no JSON from byte 101"));
  EXPECT_TRUE(has(message("[1]", merges), "no JSON object"));
  EXPECT_TRUE(has(message("{\"a\": 1e999}", merges), "no JSON of ours"));
  EXPECT_TRUE(has(message(changed("\"he\": 256", "\"he\": 9999"), merges), "'he' has the id 9999; expected"));
  EXPECT_TRUE(has(message(changed("\"he\": 256", "\"he\": -1"), merges), "'he' has the id -1"));
  EXPECT_TRUE(has(message(changed("\"he\": 256", "\"he\": [[1]]"), merges), "'he' has the id array"));
  EXPECT_TRUE(has(message(changed("\"he\": 256", "\"he\": 3"), merges), "have the same id 3"));
  EXPECT_TRUE(has(message(changed("\"he\": 256", "\"\": 256"), merges), "a token of no characters"));
  EXPECT_TRUE(has(message("{}", ""), "no token for the byte 0x00"));
  EXPECT_TRUE(has(message(encoder, merges + "t"), "line 4 of the merges, 't', is not two tokens"));
  EXPECT_TRUE(has(message(encoder, merges + "t h e\n"), "is not two tokens"));
  EXPECT_TRUE(has(message(encoder, merges + "x yz\n"), "needs the token 'yz', which"));
  EXPECT_TRUE(has(message(encoder, merges + "x y\r\n"), "needs the token 'xy', which"));
  EXPECT_TRUE(has(message(encoder, merges + "h e\n"), "was there before"));
}

TEST(ByteAlphabet, WritesEveryByteVisibly) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
  EXPECT_EQ(to_alphabet(" \n"), "ĠĊ");
  for (const char* other : {"\u00ad", "\u0144", "日", "\xC3", " "}) EXPECT_EQ(from_alphabet(other), std::nullopt);
}

TEST(BpeTraining, LearnsWhatTheReferenceLearns) {
  const auto texts = print_bpe(learnt({600, 2, {}}));
  EXPECT_EQ(texts.merges, contents(kGoldenFolder + "/vocab.bpe"));
  EXPECT_EQ(texts.encoder, contents(kGoldenFolder + "/encoder.json"));
}

TEST(BpeTraining, StopsAtTheSizeAskedFor) {
  const auto whole = learnt({600, 2, {}}), part = learnt({300, 2, {"<s>"}});
  EXPECT_EQ(part.tokens.size(), 300U);
  EXPECT_EQ(part.specials, Ids{299});
  ASSERT_EQ(part.merges.size(), 43U);
  EXPECT_TRUE(std::equal(part.merges.begin(), part.merges.end(), whole.merges.begin()));
}

TEST(BpeTraining, MakesATokenOnceThoughTwoPairsGiveIt) {
  // "abc" arises as (ab, c), and where b goes first with c as (a, bc).
  const WordCounts words = {{"ab", 9}, {"abc", 3}, {"bcd", 8}, {"abcd", 4}, {"bc", 7}};
  const auto vocabulary = train_bpe(words, {400, 1, {}});
  EXPECT_EQ(parse_bpe(print_bpe(vocabulary).encoder, print_bpe(vocabulary).merges), vocabulary);
  const Bpe tokenizer(vocabulary);
  for (const auto& [word, count] : words) EXPECT_EQ(tokenizer.encode(word).size(), 1U) << word;
}

TEST(BpeTraining, RefusesWhatCannotBe) {
  const auto message = [](const BpeTraining& options) { return message_of([&] { learnt(options); }, Fault::Usage); };
  EXPECT_TRUE(has(message({256, 2, {"<s>"}}), "a vocabulary of 256 tokens cannot be learnt"));
  EXPECT_TRUE(has(message({std::int64_t{1} << 40, 2, {}}), "at most 2^31 - 1"));
  EXPECT_TRUE(has(message({300, 2, {"\xFF"}}), "no text in UTF-8"));
  EXPECT_TRUE(has(message({300, 2, {""}}), "no text in UTF-8"));
  EXPECT_TRUE(has(message({300, 2, {"<s>", "<s>"}}), "another token has its name"));
  EXPECT_TRUE(has(message({300, 2, {"a"}}), "another token has its name"));
}

TEST(WordCache, ForgetsWhenItIsFull) {
  WordCache cache;
  const auto word = [](int i) { return fmt::format("word{}", i); };
  for (std::int32_t i = 0; i < 100'000; ++i) {
    const std::string text = word(i);
    ASSERT_TRUE(cache.find(text, hash64(text)).empty());
    cache.add(text, hash64(text), Ids{i, i + 1});
    const auto found = cache.find(text, hash64(text));
    ASSERT_EQ(Ids(found.begin(), found.end()), (Ids{i, i + 1}));
  }
  EXPECT_TRUE(cache.find(word(0), hash64(word(0))).empty());
}

}  // namespace
}  // namespace lockstep::data
