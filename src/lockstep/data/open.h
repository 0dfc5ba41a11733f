// lockstep/data/open.h
//
// What a user calls a data set, opened: a file, a folder, a pattern such as
// part-*.csv, or the name of a built-in set. Of files that hold several arrays,
// "data.h5:/x,/y" are two of them. A part of a pattern may be without samples, others have some.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/core/registry.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/format.h"

namespace lockstep::data {

/// Sets that are not files of the user: built-in ones and generators. "blobs:samples=1000,dims=3"
/// passes what follows the colon.
using DatasetRegistry = Registry<DatasetPtr(const std::string& arguments)>;

DatasetPtr open(const std::string& source, const OpenOptions& options = {});

/// A source without the names of fields, which are among the options then.
struct Source {
  std::string files;
  OpenOptions options;
};
Source source_named(const std::string& source, OpenOptions options);

/// The bytes of the files that an index, the one of paths[number], is of.
using FilesOf = std::function<std::vector<std::shared_ptr<const FileBytes>>(std::size_t number, const Index& index)>;
/// Files of one format, scanned already, one behind the other; read from the disk unless `files_of` says from where.
DatasetPtr join_files(const std::vector<std::string>& paths, std::vector<Index> indices, const FilesOf& files_of = {});

/// This rank's rows: of a source that all ranks see, cut into runs of nearly equal length; of
/// part-{rank}.csv its own file, of which there must be as many as ranks. All ranks of `group` together: their
/// files have one schema, also where types are guessed.
DatasetPtr open_part(const std::string& source, comm::Communicator& group, const OpenOptions& options = {});

/// The files that a pattern names, in order; the source itself if it has no pattern.
std::vector<std::string> expand(const std::string& source);
/// The same of files that are there: else Fault::Usage.
std::vector<std::string> files_named(const std::string& source);
/// Those that all ranks together read of a source.
std::vector<std::string> files_of(const std::string& source);

}  // namespace lockstep::data
