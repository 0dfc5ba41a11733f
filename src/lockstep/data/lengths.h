// lockstep/data/lengths.h
//
// How long the samples of a data set are, for those who sort them by it or pack them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// Of one field, by sample: values count along their first dimension, text and images in bytes. Reads
/// every sample once.
std::vector<std::int64_t> lengths_of(const Dataset& dataset, const std::string& field);

/// Of the field's value in a sample; a missing one is 0 long.
std::int64_t length_of(const Field& field, const Value& value) noexcept;

}  // namespace lockstep::data
