// lockstep/data/formats/hdf5_array.h
//
// The data sets of an HDF5 file that can be fields of samples: arrays with a row for
// each sample. What is here lives within a Session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/formats/hdf5_library.h"

namespace lockstep::data::hdf5 {

/// More than that is not taken into memory at once.
inline constexpr std::uint64_t kMostRowBytes = std::uint64_t{1} << 30;

struct Array {
  std::string path;  // "train/images"
  std::string name;  // of the field
  DatasetId id;
  TypeId type;
  std::vector<hsize_t> dims;
  bool variable = false;            // its elements are references to values of different length
  std::uint64_t element_bytes = 0;  // on the disk

  hsize_t rows() const { return dims.at(0); }
  /// Fault::Data if they are no number of bytes that could be.
  std::uint64_t row_elements() const;
  std::uint64_t row_bytes() const;
  std::uint64_t bytes() const;
};

/// Those called `fields`, or all; their names are without a group that all of them lie in.
/// Fault::Data if they have not all as many rows, naming each.
std::vector<Array> arrays_of(hid_t file, const std::vector<std::string>& fields);

Array open_array(hid_t file, const std::string& path);

/// Fault::Data if a file of so many bytes cannot hold that many rows, before memory is taken for them.
void check_plausible(const Array& array, std::uint64_t file_bytes);

/// The rows [first, first + rows) as they lie in the file, into memory for as many row_bytes().
void read_rows(const Array& array, hsize_t first, hsize_t rows, void* into);

}  // namespace lockstep::data::hdf5
