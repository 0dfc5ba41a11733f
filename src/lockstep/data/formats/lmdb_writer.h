// lockstep/data/formats/lmdb_writer.h
//
// Writes samples as LMDB. A single field of bytes is stored as it is, several as a record
// (sample_record.h). LMDB sorts its keys: if those of the samples do not ascend, they are
// numbered, so that the order stays.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/format.h"

namespace lockstep::data::lmdb {

/// A file if `path` ends in .mdb, else a folder with data.mdb.
std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema);

}  // namespace lockstep::data::lmdb
