// lockstep/data/formats/hdf5_writer.h
//
// Writes samples as HDF5: a data set per field, as h5py and others read them.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/format.h"

namespace lockstep::data::hdf5 {

std::unique_ptr<Writer> make_writer(const std::string& path, const Schema& schema, const WriteOptions& options);

}  // namespace lockstep::data::hdf5
