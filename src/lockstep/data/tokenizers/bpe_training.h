// lockstep/data/tokenizers/bpe_training.h
//
// Learns a byte pair vocabulary: over and over the pair of neighbours that occurs most
// often in all words becomes a token. Of equally frequent ones the pair with the lower
// ids is taken, so that the same words give the same vocabulary everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/tokenizers/bpe.h"
#include "lockstep/data/tokenizers/word_counts.h"

namespace lockstep::data {

struct BpeTraining {
  std::int64_t vocabulary = 50257;  // tokens in all: bytes, merges and specials
  std::int64_t least_count = 2;     // a pair that occurs less often is not merged
  std::vector<std::string> specials = {"<|endoftext|>"};
};

/// Ids as in GPT-2: bytes, then merges, then specials. Fewer tokens than asked for if the words have no
/// more pairs. Fault::Usage if the options cannot be met.
BpeVocabulary train_bpe(const WordCounts& words, const BpeTraining& options);

}  // namespace lockstep::data
