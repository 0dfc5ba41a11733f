// lockstep/data/formats/parquet_arrays.h
//
// Between the arrays of Arrow and the values of samples.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <arrow/api.h>

#include "lockstep/data/field.h"
#include "lockstep/data/sample.h"

namespace lockstep::data::parquet_format {

/// Arrow's own reason as an Error.
void check(const arrow::Status& status);

/// The field that a column gives; numbers of which some are missing are float64, with NaN. Fault::Data
/// if it is no column of numbers, texts or bytes.
Field field_of(const arrow::Field& column, bool some_missing);

/// The numbers of `array` as `field` has them, one row behind the other.
void append_numbers(const arrow::Array& array, const Field& field, std::string& into);
/// Calls with every text or piece of bytes; nothing where it is missing.
void each_bytes(const arrow::Array& array, const std::function<void(std::optional<std::string_view>)>& each);

/// Fault::Usage if Parquet has no column for it.
std::shared_ptr<arrow::Field> column_of(const Field& field);
/// Appends to a builder of column_of(field).
void append_value(const Field& field, const Value& value, arrow::ArrayBuilder& builder);

}  // namespace lockstep::data::parquet_format
