// lockstep/data/formats/hdf5_heap.h
//
// Values of different length. An array has references to them, and they lie one behind
// the other in collections, the file's global heap. Found by ourselves: the library reads
// them under its lock, and crashes where a reference is torn.
#pragma once

#include <cstdint>
#include <map>

#include "lockstep/data/file_bytes.h"
#include "lockstep/data/index.h"

namespace lockstep::data::hdf5 {

/// Of an element of an array, on the disk: length, address of the collection, number in it.
inline constexpr std::uint64_t kReferenceBytes = 16;

class GlobalHeap {
 public:
  /// `base`: what addresses in the file count from.
  GlobalHeap(const FileBytes& file, std::uint64_t base) : file_(file), base_(base) {}

  /// Where the value of `reference` lies, which has as many elements of `element_bytes` as that says.
  /// Fault::Data if there is no such value.
  Extent find(Bytes reference, std::uint64_t element_bytes);

 private:
  using Objects = std::map<std::uint32_t, Extent>;
  const Objects& collection(std::uint64_t address);
  Objects parse(std::uint64_t offset);

  const FileBytes& file_;
  std::uint64_t base_;
  std::map<std::uint64_t, Objects> collections_;
  std::uint64_t parsed_bytes_ = 0;
};

}  // namespace lockstep::data::hdf5
