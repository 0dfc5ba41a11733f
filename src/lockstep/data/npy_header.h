// lockstep/data/npy_header.h
//
// The head of a .npy file, as NumPy writes it: also in the members of .npz and tar.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/data/sample.h"

namespace lockstep::data {

struct NpyHeader {
  c10::ScalarType type = c10::ScalarType::Byte;
  std::vector<std::int64_t> shape;
  std::uint64_t data_offset = 0;  // from the start of the file
  std::uint64_t data_bytes() const noexcept;
};

bool is_npy(Bytes head) noexcept;
/// Of the first bytes of a file. Fault::Data with the reason if it is none, or in an order of bytes
/// or elements that is not ours.
NpyHeader parse_npy_header(Bytes head);
/// Padded so that the data is aligned, and to `least_bytes`.
std::string npy_header(c10::ScalarType type, const std::vector<std::int64_t>& shape, std::size_t least_bytes = 0);

}  // namespace lockstep::data
