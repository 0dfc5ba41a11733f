// lockstep/data/sample_wire.h
//
// A sample as bytes that travel from the rank that holds it to the one that wants it.
#pragma once

#include <string>

#include "lockstep/data/sample.h"

namespace lockstep::data {

void append_sample(std::string& bytes, const Sample& sample);
/// Takes the first sample off `bytes`, into which its values then point. Fault::Internal if torn.
void take_sample(Bytes& bytes, Sample& sample);

}  // namespace lockstep::data
