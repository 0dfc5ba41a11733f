#include "lockstep/data/tokenizers/bpe_part.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/core/error.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/tokenizers/bpe_files.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

std::vector<bool> used_by(const BpeVocabulary& whole, const WordCounts& words) {
  const Bpe tokenizer(whole);
  std::vector<bool> used(whole.tokens.size());
  std::vector<std::int32_t> ids;
  for (const auto& [word, count] : words) {
    ids.clear();
    tokenizer.encode(word, ids, Specials::AsText);
    for (const auto id : ids) used[static_cast<std::size_t>(id)] = true;
  }
  return used;
}

/// What is used, too, if these are made of it. With all merges that led to the tokens of a word, and no new ones, the
/// first that can be is the same at every turn.
void add_parts(std::vector<bool>& used, const std::vector<BpeVocabulary::Merge>& merges) {
  for (bool grown = true; grown;) {
    grown = false;
    // A merge is learnt after those of its parts: one pass from the end finds nearly all.
    for (auto merge = merges.rbegin(); merge != merges.rend(); ++merge) {
      if (!used[static_cast<std::size_t>(merge->result)]) continue;
      for (const auto part : {merge->left, merge->right}) {
        grown = grown || !used[static_cast<std::size_t>(part)];
        used[static_cast<std::size_t>(part)] = true;
      }
    }
  }
}

/// The files of a fetched set, or one of the user's.
std::vector<std::string> files_of(const std::string& source) {
  if (source.empty()) {
    fail(Fault::Usage,
         "the tokenizer 'bpe-of' takes those of GPT-2's tokens that a text needs: name it, as "
         "bpe-of:bible or bpe-of:FILE");
  }
  if (fs::is_regular_file(source)) return {source};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(fetched_folder(source))) files.push_back(entry.path().string());
  return files;
}

std::unique_ptr<Tokenizer> make_part(const std::string& source) {
  WordCounts words;
  for (const auto& file : files_of(source)) {
    Scratch scratch;
    count_words(as_text(lockstep::data::whole(*map_file(file), scratch)), words);
  }
  return std::make_unique<Bpe>(part_for(read_bpe(fetched_folder("gpt2-bpe")), words));
}

const TokenizerRegistry::Add registered{"bpe-of", "Those of GPT-2's tokens that a text needs: bpe-of:bible", make_part};

}  // namespace

BpeVocabulary part_for(const BpeVocabulary& whole, const WordCounts& words) {
  auto used = used_by(whole, words);
  for (std::size_t id = 0; id < used.size(); ++id) used[id] = used[id] || whole.tokens[id].size() == 1;
  for (const auto special : whole.specials) used[static_cast<std::size_t>(special)] = true;
  add_parts(used, whole.merges);

  std::vector<std::int32_t> new_ids(used.size(), -1);
  BpeVocabulary part;
  for (std::size_t id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    new_ids[id] = static_cast<std::int32_t>(part.tokens.size());
    part.tokens.push_back(whole.tokens[id]);
  }
  const auto renamed = [&](std::int32_t id) { return new_ids[static_cast<std::size_t>(id)]; };
  for (const auto& [left, right, result] : whole.merges) {
    if (renamed(result) >= 0) part.merges.push_back({renamed(left), renamed(right), renamed(result)});
  }
  for (const auto special : whole.specials) part.specials.push_back(renamed(special));
  return part;
}

}  // namespace lockstep::data
