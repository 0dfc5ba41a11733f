// lockstep/data/sample_wire.h
//
// A sample as bytes that travel from the rank that holds it to the one that wants it.
#pragma once

#include <cstddef>

#include "lockstep/data/sample.h"

namespace lockstep::data {

std::size_t wire_bytes(const Sample& sample) noexcept;
/// Into the wire_bytes() from `place` on.
void put_sample(std::byte* place, const Sample& sample) noexcept;
/// Takes the first sample off `bytes`, into which its values then point. Fault::Internal if torn.
void take_sample(Bytes& bytes, Sample& sample);

}  // namespace lockstep::data
