#include "lockstep/data/tokenizers/bpe_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tokenizers/byte_alphabet.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVersionLine = "#version: 0.2";

/// By id, as they are written.
std::vector<std::string> parse_names(std::string_view text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    fail(Fault::Data, fmt::format("the vocabulary is no JSON from byte {} on", error.byte));
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("the vocabulary is no JSON of ours: {}", error.what()));
  }
  if (!json.is_object()) fail(Fault::Data, "the vocabulary is no JSON object of tokens and their ids");
  std::vector<std::string> names(json.size());
  for (const auto& [name, id] : json.items()) {
    if (name.empty()) fail(Fault::Data, "the vocabulary has a token of no characters");
    const bool inside = id.is_number_integer() && id >= 0 && id < names.size();
    if (!inside) {
      // Printing what is no number could recurse as deep as the file likes.
      fail(Fault::Data, fmt::format("the token '{}' has the id {}; expected a whole number from 0 to {}", name,
                                    id.is_number() ? id.dump() : id.type_name(), names.size() - 1));
    }
    auto& place = names[id.get<std::size_t>()];
    if (!place.empty()) {
      fail(Fault::Data,
           fmt::format("the tokens '{}' and '{}' have the same id {}", place, name, id.get<std::size_t>()));
    }
    place = name;
  }
  return names;
}

class MergeParser {
 public:
  explicit MergeParser(const std::vector<std::string>& names) {
    for (std::size_t id = 0; id < names.size(); ++id) ids_.emplace(names[id], static_cast<std::int32_t>(id));
  }

  std::vector<BpeVocabulary::Merge> parse(std::string_view text) {
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      // Only at the top: further below "# #" may be a merge.
      if (line.empty() || (line_ == 1 && line.starts_with("#version"))) continue;
      add(line);
    }
    return std::move(merges_);
  }

 private:
  void add(std::string_view line) {
    const auto space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      refuse(line, "is not two tokens with one space between them");
    }
    const auto left = line.substr(0, space), right = line.substr(space + 1);
    const BpeVocabulary::Merge merge = {id_of(line, left), id_of(line, right),
                                        id_of(line, std::string(left) + std::string(right))};
    if (!seen_.insert(std::string(line)).second) refuse(line, "was there before");
    merges_.push_back(merge);
  }

  std::int32_t id_of(std::string_view line, std::string_view name) const {
    const auto found = ids_.find(std::string(name));
    if (found == ids_.end()) {
      refuse(line, fmt::format("needs the token '{}', which the vocabulary has not", name.substr(0, 40)));
    }
    return found->second;
  }

  [[noreturn]] void refuse(std::string_view line, const std::string& reason) const {
    fail(Fault::Data, fmt::format("line {} of the merges, '{}', {}", line_, line.substr(0, 40), reason));
  }

  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_set<std::string> seen_;
  std::vector<BpeVocabulary::Merge> merges_;
  std::size_t line_ = 0;
};

/// Of the ids that are a byte or come of a merge; of the others nothing.
std::vector<std::optional<std::string>> bytes_of(const std::vector<std::string>& names,
                                                 const std::vector<BpeVocabulary::Merge>& merges) {
  std::vector<std::optional<std::string>> bytes(names.size());
  for (std::size_t id = 0; id < names.size(); ++id) {
    if (auto byte = from_alphabet(names[id]); byte && byte->size() == 1) bytes[id] = std::move(byte);
  }
  for (const auto& merge : merges) {
    auto& token = bytes[merge.result];
    if (!token) token = from_alphabet(names[merge.result]);
    if (!token) {
      fail(Fault::Data, fmt::format("the token '{}' of a merge has a character that stands for no byte",
                                    names[merge.result].substr(0, 40)));
    }
  }
  return bytes;
}

std::string read_one_of(const std::string& folder, const std::string& name, const std::string& other_name) {
  for (const auto& file : {name, other_name}) {
    const std::string path = (fs::path(folder) / file).string();
    if (!fs::exists(path)) continue;
    Scratch scratch;
    return std::string(as_text(whole(*map_file(path), scratch)));
  }
  fail(Fault::Usage,
       fmt::format("'{}' is no folder of a vocabulary: it has neither {} nor {}", folder, name, other_name));
}

std::unique_ptr<Tokenizer> make_bpe(const std::string& folder) {
  return std::make_unique<Bpe>(read_bpe(folder.empty() ? fetched_folder("gpt2-bpe") : folder));
}

const TokenizerRegistry::Add registered{"bpe", "Byte pair encoding with GPT-2's vocabulary, or that of a folder",
                                        make_bpe};

}  // namespace

BpeVocabulary parse_bpe(std::string_view encoder, std::string_view merges) {
  const auto names = parse_names(encoder);
  BpeVocabulary vocabulary;
  vocabulary.merges = MergeParser(names).parse(merges);
  const auto bytes = bytes_of(names, vocabulary.merges);
  for (std::size_t id = 0; id < names.size(); ++id) {
    if (!bytes[id]) vocabulary.specials.push_back(static_cast<std::int32_t>(id));
    vocabulary.tokens.push_back(bytes[id].value_or(names[id]));
  }
  return vocabulary;
}

BpeTexts print_bpe(const BpeVocabulary& vocabulary) {
  std::vector<std::string> names;
  for (const auto& token : vocabulary.tokens) names.push_back(to_alphabet(token));
  for (const auto id : vocabulary.specials) names[id] = vocabulary.tokens[id];
  BpeTexts texts;
  for (std::size_t id = 0; id < names.size(); ++id) {
    const std::string quoted = nlohmann::json(names[id]).dump(-1, ' ', /*ensure_ascii=*/true);
    texts.encoder += fmt::format("{}{}: {}", id == 0 ? "{" : ", ", quoted, id);
  }
  texts.encoder += "}";
  texts.merges = fmt::format("{}\n", kVersionLine);
  for (const auto& merge : vocabulary.merges)
    texts.merges += fmt::format("{} {}\n", names[merge.left], names[merge.right]);
  return texts;
}

BpeVocabulary read_bpe(const std::string& folder) {
  const std::string encoder = read_one_of(folder, "encoder.json", "vocab.json");
  const std::string merges = read_one_of(folder, "vocab.bpe", "merges.txt");
  try {
    return parse_bpe(encoder, merges);
  } catch (Error& error) {
    throw error.during("reading the vocabulary in " + folder);
  }
}

void write_bpe(const BpeVocabulary& vocabulary, const std::string& folder) {
  const BpeTexts texts = print_bpe(vocabulary);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_errno(fmt::format("cannot make the folder {}", folder), error.value());
  write_whole((fs::path(folder) / "encoder.json").string(), texts.encoder);
  write_whole((fs::path(folder) / "vocab.bpe").string(), texts.merges);
}

}  // namespace lockstep::data
