// lockstep/data/batch.h
//
// What the loader hands out: this rank's part of one global batch, a tensor per field
// with a row per sample. The counts of the whole batch travel with it, so that sums
// over ranks stay exact when parts are uneven.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/field.h"

namespace lockstep::data {

/// A sample that could not be read, under on_error = "skip".
struct Skipped {
  std::string name;
  std::string reason;
};

struct Batch {
  std::int64_t epoch = 0;
  std::int64_t position = 0;      // of its first sample in the order of the epoch
  std::int64_t global_count = 0;  // samples on all ranks together, those included that could not be read
  std::int64_t first = 0;         // of this rank's part, in the global batch
  std::vector<std::int64_t> ids;  // samples of this rank's part, as the data set numbers them
  Schema schema;                  // of the tensors: what the transforms made of the data set's

  /// By place in the schema: [samples, …]. Text and raw bytes are uint8 [samples, longest].
  std::vector<at::Tensor> tensors;
  /// By place, defined where samples differ in length: int64 [samples].
  std::vector<at::Tensor> lengths;
  std::vector<Skipped> skipped;

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(ids.size()); }
  /// An Error that proposes the nearest name if there is none of it.
  const at::Tensor& operator[](const std::string& field) const { return tensors[place_of(schema, field)]; }
};

}  // namespace lockstep::data
