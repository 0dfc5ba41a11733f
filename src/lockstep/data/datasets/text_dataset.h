// lockstep/data/datasets/text_dataset.h
//
// A text as a data set. Its samples are its paragraphs, a field "text"; or with
// "window=128" runs of so many tokens, a field "tokens", of the tokenizer asked for
// ("tokenizer=bpe", else bytes), "stride" tokens from one to the next.
#pragma once

#include <string>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// The file `file` of the fetched `set`.
DatasetPtr open_text(const std::string& set, const std::string& arguments, const std::string& file);

}  // namespace lockstep::data
