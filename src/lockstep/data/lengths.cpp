#include "lockstep/data/lengths.h"

#include "lockstep/data/on_threads.h"
#include "lockstep/profile/span.h"

namespace lockstep::data {

std::int64_t length_of(const Field& field, const Value& value) noexcept {
  if (value.missing) return 0;
  if (field.encoding != Encoding::Values) return static_cast<std::int64_t>(value.bytes.size());
  return value.shape.empty() ? 1 : value.shape[0];
}

std::vector<std::int64_t> lengths_of(const Dataset& dataset, const std::string& field) {
  const profile::Span span("lengths of samples");
  const std::size_t place = place_of(dataset.schema(), field);
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(dataset.size()));
  on_samples(dataset, [&](std::int64_t index, const Sample& sample) {
    lengths[static_cast<std::size_t>(index)] = length_of(dataset.schema()[place], sample.values[place]);
  });
  return lengths;
}

}  // namespace lockstep::data
