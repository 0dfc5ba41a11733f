// lockstep/data/tokenizers/bpe_part.h
//
// The part of a large vocabulary that a text needs. A book uses a quarter of GPT-2's 50,257 tokens, and
// a model of it would spend most of its weights and time on scores of the others.
#pragma once

#include "lockstep/data/tokenizers/bpe.h"
#include "lockstep/data/tokenizers/word_counts.h"

namespace lockstep::data {

/// The bytes, the tokens of these words with what they are merged of, and the specials, numbered in the order in which
/// they were. The words have the same tokens as in the whole, under new ids; other text has tokens, too, if more of
/// them.
BpeVocabulary part_for(const BpeVocabulary& whole, const WordCounts& words);

}  // namespace lockstep::data
