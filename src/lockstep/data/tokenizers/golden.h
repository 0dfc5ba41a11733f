// lockstep/data/tokenizers/golden.h
//
// For the tests of this folder: what the reference made of tricky texts
// (tests/data/bpe/golden.py).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/data/testing.h"

namespace lockstep::data {

inline const std::string kGoldenFolder = LOCKSTEP_TEST_DATA "/bpe";

struct Golden {
  std::string text;
  std::vector<std::size_t> words_end;
  std::vector<std::int32_t> ids;   // of the vocabulary beside it
  std::vector<std::int32_t> gpt2;  // of GPT-2's
};

inline nlohmann::json golden_json() { return nlohmann::json::parse(contents(kGoldenFolder + "/golden.json")); }

inline std::vector<Golden> golden_texts() {
  std::vector<Golden> texts;
  const auto golden = golden_json();
  for (const auto& text : golden.at("texts")) {
    texts.push_back({text.at("text"), text.at("words_end"), text.at("ids"), text.at("gpt2")});
  }
  return texts;
}

/// No valid UTF-8, each in another way.
inline std::vector<std::string> broken_texts() {
  return {"\x80",
          "ab\xC3",
          "\xC3(",
          "\xE2\x82",
          "\xF0\x9F\x98",
          "\xC0\xAF",
          "\xED\xA0\x80",
          "\xF4\x90\x80\x80",
          "\xFF\xFE word\xFF",
          " \xA0 \xE3\x80",
          std::string("\0\x9F'\xC2's", 6)};
}

}  // namespace lockstep::data
