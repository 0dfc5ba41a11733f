// lockstep/data/index_cache.h
//
// The index of a source: read from its side file (SOURCE.lsx, or in the user's cache
// where the source's folder cannot be written) while the data is what it was, else
// made by a scan and kept there for the next time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/format.h"

namespace lockstep::data {

Index index_of(const std::string& path, const OpenOptions& options);

/// What is kept of it, if the data is what it was.
std::optional<Index> kept_index_of(const std::string& path, const OpenOptions& options);

/// Where it is kept, if it is.
std::string index_file_of(const std::string& path);

/// In words, those of its files that are not as long as when the kept index was made.
std::vector<std::string> files_of_other_size(const std::string& path);

/// Fills the checksums in, reading all of the source, and keeps them. Fault::Data if those that the format itself
/// has of its bytes say otherwise. False, with a warning, if they cannot be kept.
bool take_checksums(const std::string& path, Index& index);

}  // namespace lockstep::data
