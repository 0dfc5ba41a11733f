// lockstep/data/crc32c.h
//
// The checksum of TFRecord, iSCSI and ext4 (Castagnoli's polynomial): by the CPU's own
// instruction where it has one, else by a table.
#pragma once

#include <cstdint>

#include "lockstep/data/sample.h"

namespace lockstep::data {

std::uint32_t crc32c(Bytes bytes) noexcept;
/// Without the instruction, as on a CPU that lacks it.
std::uint32_t crc32c_by_table(Bytes bytes) noexcept;

}  // namespace lockstep::data
