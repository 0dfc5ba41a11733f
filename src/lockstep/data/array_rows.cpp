#include "lockstep/data/array_rows.h"

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::data {

namespace {

/// What makes rows of one size of images.
std::string resizing(const Field& field) {
  const bool encoded = field.encoding == Encoding::Jpeg || field.encoding == Encoding::Png;
  if (!encoded && (field.encoding != Encoding::Values || field.shape.size() != 3)) return "";
  return fmt::format(", or {}--transform 'resize {} size=64'",
                     encoded ? fmt::format("--transform 'decode {}' ", field.name) : "", field.name);
}

}  // namespace

void add_array_field(Index& index, const std::string& name, c10::ScalarType type,
                     const std::vector<std::int64_t>& shape) {
  if (shape.empty()) fail(Fault::Data, fmt::format("'{}' is a single number, not a row per sample", name));
  if (!index.schema.empty() && index.samples != shape[0]) {
    fail(Fault::Data,
         fmt::format("'{}' has {} rows but '{}' has {}", name, shape[0], index.schema[0].name, index.samples));
  }
  index.samples = shape[0];
  index.schema.push_back({name, Encoding::Values, type, {shape.begin() + 1, shape.end()}});
}

void add_array(Index& index, const std::string& name, c10::ScalarType type, const std::vector<std::int64_t>& shape,
               const Extent& place) {
  add_array_field(index, name, type, shape);
  const auto row = static_cast<std::uint64_t>(index.schema.back().bytes());
  const auto rows = static_cast<std::uint64_t>(shape[0]);
  if (row > 0 && place.length / row < rows) {
    fail(Fault::Data, fmt::format("'{}' is cut short: {} bytes from byte {} on hold {} of its {} rows", name,
                                  place.length, place.offset, place.length / row, rows));
  }
  Column column;
  column.fields = {static_cast<std::uint32_t>(index.schema.size() - 1)};
  column.layout = Column::Layout::Uniform;
  column.extents = {{place.file, place.offset, row}};
  index.columns.push_back(std::move(column));
}

ArrayRows::ArrayRows(const Schema& schema) {
  if (schema.size() != 1) {
    fail(Fault::Usage, fmt::format("one array holds one field, but there are {}; use npz, or choose one with --fields",
                                   schema.size()));
  }
  field_ = schema[0];
  if (!field_.fixed() && field_.encoding == Encoding::Values) {
    fail(Fault::Usage,
         fmt::format("the samples of '{}' differ in size, and the rows of an array do not: {}; use tar or "
                     "tfrecord{}",
                     field_.name, field_.text(), resizing(field_)));
  }
  if (!field_.fixed()) {
    fail(Fault::Usage, fmt::format("an array cannot hold {}; use tar or tfrecord{}", field_.text(), resizing(field_)));
  }
}

std::vector<std::int64_t> ArrayRows::shape_of(std::int64_t rows) const {
  std::vector<std::int64_t> shape = {rows};
  shape.insert(shape.end(), field_.shape.begin(), field_.shape.end());
  return shape;
}

Bytes ArrayRows::bytes(const Sample& sample, std::size_t place) const {
  const Value& value = sample.values.at(place);
  check_row(field_, value);
  return value.bytes;
}

void check_row(const Field& field, const Value& value) {
  if (value.missing) {
    fail(Fault::Data,
         fmt::format("'{}' is missing, and an array has a row for each sample; use csv, tar or tfrecord", field.name));
  }
  if (field.encoding == Encoding::Values && value.bytes.size() != static_cast<std::size_t>(field.bytes())) {
    fail(Fault::Data, fmt::format("'{}' has {} bytes instead of {}", field.name, value.bytes.size(), field.bytes()));
  }
}

}  // namespace lockstep::data
