// lockstep/train/recipe_tokenizer.h
//
// How the text of a recipe's data becomes tokens.
#pragma once

#include <string>

#include "lockstep/core/config.h"

namespace lockstep::train {

/// As data::make_tokenizer takes it: of the step 'tokenise' in data.prepare or data.transforms, or of a built-in text
/// by windows ("bible:window=129,tokenizer=bpe" in data.train); "": the data is no text.
std::string tokenizer_of(const Config& recipe);

}  // namespace lockstep::train
