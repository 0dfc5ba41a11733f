// GPT-2's own vocabulary and a whole book, where `lockstep data get` has brought them.
#include <fmt/format.h>

#include "lockstep/core/hash.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/tokenizer.h"
#include "lockstep/data/tokenizers/golden.h"

namespace lockstep::data {
namespace {

class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_fetched("gpt2-bpe")) GTEST_SKIP() << "lockstep data get gpt2-bpe";
    tokenizer_ = make_tokenizer("bpe");
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(Gpt2, GivesTheIdsOfTheReference) {
  EXPECT_EQ(tokenizer_->vocabulary(), 50257);
  for (const auto& golden : golden_texts()) {
    EXPECT_EQ(tokenizer_->encode(golden.text), golden.gpt2) << golden.text;
    EXPECT_EQ(tokenizer_->decode(golden.gpt2), golden.text);
  }
  EXPECT_EQ(tokenizer_->encode("<|endoftext|>", Specials::AsTokens), std::vector<std::int32_t>{50256});
}

TEST_F(Gpt2, IsSavedByteForByte) {
  const Folder copy;
  tokenizer_->save(copy / "");
  for (const char* file : {"encoder.json", "vocab.bpe"})
    EXPECT_EQ(contents(copy / file), contents(fetched_folder("gpt2-bpe") + "/" + file));
}

TEST_F(Gpt2, GivesTheIdsOfAWholeBook) {
  if (!is_fetched("moby-dick")) GTEST_SKIP() << "lockstep data get moby-dick";
  const std::string book = contents(fetched_folder("moby-dick") + "/data.txt");
  const auto ids = tokenizer_->encode(book);
  const auto wanted = golden_json().at("book");
  EXPECT_EQ(ids.size(), wanted.at("tokens").get<std::size_t>());
  EXPECT_EQ(fmt::format("{:016x}", hash64(ids.data(), ids.size() * sizeof ids[0])),
            wanted.at("hash").get<std::string>());
  EXPECT_EQ(tokenizer_->decode(ids), book);
}

}  // namespace
}  // namespace lockstep::data
