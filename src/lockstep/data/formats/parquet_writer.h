// lockstep/data/formats/parquet_writer.h
//
// Writes samples as Parquet: a column per field, a tensor as a list of one length. What
// Parquet does not say of a field (its shape, classes, kind of image) is kept beside.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/format.h"

namespace lockstep::data::parquet_format {

/// The file's own metadata in which the schema is kept, as JSON.
inline constexpr const char* kSchemaKey = "lockstep.schema";

std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema, const WriteOptions& options);

}  // namespace lockstep::data::parquet_format
