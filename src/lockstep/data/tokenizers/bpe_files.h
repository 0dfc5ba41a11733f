// lockstep/data/tokenizers/bpe_files.h
//
// A vocabulary as GPT-2 keeps it: encoder.json (name of each token -> id) and vocab.bpe
// (the merges, the first first), both in the alphabet of byte_alphabet.h. A token that
// is no byte and comes of no merge is special, and its name is to be taken literally.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/tokenizers/bpe.h"

namespace lockstep::data {

struct BpeTexts {
  std::string encoder;
  std::string merges;
};

/// Fault::Data, naming the line or byte, on anything that is not a whole vocabulary.
BpeVocabulary parse_bpe(std::string_view encoder, std::string_view merges);
/// Byte by byte as GPT-2's own.
BpeTexts print_bpe(const BpeVocabulary& vocabulary);

/// From a folder with encoder.json and vocab.bpe, or vocab.json and merges.txt.
BpeVocabulary read_bpe(const std::string& folder);
/// encoder.json and vocab.bpe into the folder, which is made if absent.
void write_bpe(const BpeVocabulary& vocabulary, const std::string& folder);

}  // namespace lockstep::data
