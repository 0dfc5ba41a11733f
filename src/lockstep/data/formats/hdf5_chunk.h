// lockstep/data/formats/hdf5_chunk.h
//
// A chunk of an HDF5 data set, unpacked by ourselves: the library holds one lock while
// it inflates, and loader threads would wait for it. The filters that most files have,
// in the order in which they are applied: shuffle, deflate, fletcher32.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/data/sample.h"

namespace lockstep::data::hdf5 {

struct ChunkPacking {
  std::uint64_t bytes = 0;     // unpacked
  std::uint64_t shuffled = 0;  // the size of its elements; 0: not shuffled
  bool deflated = false;
  bool summed = false;  // by fletcher32
  std::string fill;     // an element of chunks that were never written
};

nlohmann::json to_json(const ChunkPacking& packing);
/// Fault::Data on anything to_json would not write.
ChunkPacking packing_from_json(const nlohmann::json& json);

/// Fault::Data if it does not give exactly `packing.bytes`. `stored` is empty if it was never written.
std::string unpack_chunk(const ChunkPacking& packing, Bytes stored);

/// Puts a chunk of shape `chunk`, which begins at `origin`, into an array of shape `dims`; what lies
/// beyond its edge is left out. All have the same number of dims.
void place_chunk(std::string_view bytes, const std::vector<std::uint64_t>& chunk,
                 const std::vector<std::uint64_t>& origin, const std::vector<std::uint64_t>& dims,
                 std::uint64_t element_bytes, std::string& into);

/// As HDF5 counts it: big-endian words of 16 bits.
std::uint32_t fletcher32(Bytes bytes) noexcept;

}  // namespace lockstep::data::hdf5
