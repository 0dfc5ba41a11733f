#include "lockstep/data/open.h"

#include <glob.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/stored_dataset.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kRank = "{rank}";

std::string with_rank(const std::string& source, const std::string& rank) {
  std::string text = source;
  for (auto place = text.find(kRank); place != std::string::npos; place = text.find(kRank, place + rank.size())) {
    text.replace(place, kRank.size(), rank);
  }
  return text;
}

/// What all of the files have in common, by place in `paths`. An Error names two that do not go together.
Schema common_schema(const std::vector<std::string>& paths, const std::vector<Index>& indices) {
  std::vector<Schema> schemas;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    schemas.push_back(indices[i].schema);
    if (indices[i].format != indices[0].format) {
      fail(Fault::Usage, fmt::format("{} is {} but {} is {}; a pattern names files of one format", paths[0],
                                     indices[0].format, paths[i], indices[i].format));
    }
  }
  const Format& format = format_named(indices[0].format);
  try {
    return format.common_schema(schemas);
  } catch (const Error&) {
    for (std::size_t i = 1; i < paths.size(); ++i) {
      try {
        (void)format.common_schema({schemas[0], schemas[i]});
      } catch (Error& error) {
        throw error.during(fmt::format("reading {} and {} as one set", paths[0], paths[i]));
      }
    }
    throw;
  }
}

/// Of files that are one set, those that have samples; types cannot be guessed from the others. Fault::Data if none
/// has.
void leave_out_empty(std::vector<std::string>& paths, std::vector<Index>& indices) {
  const std::string first = paths.front();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (indices[i].samples == 0) continue;
    if (kept != i) {
      paths[kept] = std::move(paths[i]);
      indices[kept] = std::move(indices[i]);
    }
    ++kept;
  }
  if (kept == 0) fail(Fault::Data, fmt::format("{} and all files beside it hold no samples", first));
  paths.resize(kept);
  indices.resize(kept);
}

/// This rank's of as many files as ranks, with the fields of all: types that are guessed from what a file
/// holds differ from file to file.
DatasetPtr open_own(const std::string& source, comm::Communicator& group, OpenOptions options) {
  const auto files = expand(with_rank(source, "*"));
  if (static_cast<int>(files.size()) != group.size()) {
    fail(Fault::Usage, fmt::format("{} needs as many ranks as files: there are {} files and {} ranks", source,
                                   files.size(), group.size()));
  }
  const std::string path = with_rank(source, std::to_string(group.rank()));
  if (!is_there(path)) fail(Fault::Usage, fmt::format("there is no {}; files of ranks are numbered from 0", path));
  options.may_be_empty = true;
  Index index = index_of(path, options);
  Index about;  // without what is many bytes
  about.format = index.format;
  about.schema = index.schema;
  about.samples = index.samples;
  std::vector<std::string> paths;
  std::vector<Index> others;
  for (const auto& bytes : group.gather_bytes(about.serialize())) {
    paths.push_back(with_rank(source, std::to_string(others.size())));
    others.push_back(Index::parse(bytes));
  }
  leave_out_empty(paths, others);
  index.schema = common_schema(paths, others);
  return std::make_shared<StoredDataset>(path, std::move(index));
}

std::vector<Index> indices_of(const std::vector<std::string>& paths, OpenOptions options) {
  std::vector<Index> indices;
  options.may_be_empty = paths.size() > 1;
  for (const auto& path : paths) indices.push_back(index_of(path, options));
  return indices;
}

}  // namespace

std::vector<std::string> expand(const std::string& source) {
  if (source.find_first_of("*?[") == std::string::npos || is_there(source)) return {source};
  glob_t found{};
  const int result = glob(source.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (result == 0 ? found.gl_pathc : 0));
  globfree(&found);
  std::erase_if(paths, [](const auto& path) { return path.ends_with(".lsx"); });
  if (paths.empty()) fail(Fault::Usage, fmt::format("no file matches {}", source));
  return paths;
}

Source source_named(const std::string& source, OpenOptions options) {
  const std::size_t colon = source.rfind(":/");
  if (colon == std::string::npos || is_there(source)) return {source, std::move(options)};
  for (const auto& path : split(source.substr(colon + 1), ',')) {
    options.fields.push_back(path.starts_with('/') ? path.substr(1) : path);
  }
  return {source.substr(0, colon), std::move(options)};
}

std::vector<std::string> files_named(const std::string& source) {
  auto paths = expand(source);
  if (paths.size() > 1 || is_there(paths[0])) return paths;
  if (source.find(kRank) != std::string::npos) {
    fail(Fault::Usage, fmt::format("{} names one file per rank; here all ranks read one set: use a pattern, {}", source,
                                   with_rank(source, "*")));
  }
  fail(Fault::Usage, fmt::format("there is no file and no built-in data set '{}'{}", source,
                                 proposal(source, DatasetRegistry::instance().names())));
}

std::vector<std::string> files_of(const std::string& source) {
  return expand(with_rank(source_named(source, {}).files, "*"));
}

DatasetPtr join_files(const std::vector<std::string>& paths, std::vector<Index> indices, const FilesOf& files_of) {
  const Schema common = common_schema(paths, indices);
  std::vector<DatasetPtr> parts;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    indices[i].schema = common;
    if (files_of) {
      auto files = files_of(i, indices[i]);
      parts.push_back(std::make_shared<StoredDataset>(paths[i], std::move(indices[i]), std::move(files)));
    } else {
      parts.push_back(std::make_shared<StoredDataset>(paths[i], std::move(indices[i]), paths.size()));
    }
  }
  return concatenate(std::move(parts));
}

DatasetPtr open(const std::string& source, const OpenOptions& options) {
  const auto& sets = DatasetRegistry::instance();
  const std::string name = source.substr(0, source.find(':'));
  if (!is_there(source) && sets.contains(name)) {
    return sets.at("data set", name)(name.size() < source.size() ? source.substr(name.size() + 1) : "");
  }
  const auto [files, chosen] = source_named(source, options);
  auto paths = files_named(files);
  auto indices = indices_of(paths, chosen);
  leave_out_empty(paths, indices);
  return join_files(paths, std::move(indices));
}

DatasetPtr open_part(const std::string& source, comm::Communicator& group, const OpenOptions& options) {
  if (source.find(kRank) != std::string::npos) {
    const auto [files, chosen] = source_named(source, options);
    return open_own(files, group, chosen);
  }
  auto all = open(source, options);
  const std::int64_t size = all->size(), ranks = group.size(), rank = group.rank();
  const std::int64_t first = size * rank / ranks;
  return slice(std::move(all), first, size * (rank + 1) / ranks - first);
}

}  // namespace lockstep::data
