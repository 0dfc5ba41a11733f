// lockstep/data/formats/hdf5_place.h
//
// Where the rows of an HDF5 data set lie: as they are in the file, in chunks that we
// unpack ourselves, or known to the library alone, which then reads them block by block.
#pragma once

#include <string>

#include "lockstep/data/formats/hdf5_array.h"
#include "lockstep/data/index.h"

namespace lockstep::data::hdf5 {

/// The column of `array`, whose rows all have the same size. Within a Session.
Column column_of(const Array& array, hid_t file, Index& index);

/// A block of such a column that lies in Blocks. `bytes` are those of its extent, `path` the file.
std::string unpack_block(const std::string& path, const Column& column, Bytes bytes);

}  // namespace lockstep::data::hdf5
