#include "lockstep/data/tokenizer.h"

namespace lockstep::data {

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& source) {
  const auto colon = source.find(':');
  const auto& make = TokenizerRegistry::instance().at("tokenizer", source.substr(0, colon));
  return make(colon == std::string::npos ? "" : source.substr(colon + 1));
}

}  // namespace lockstep::data
