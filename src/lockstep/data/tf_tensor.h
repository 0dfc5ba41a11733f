// lockstep/data/tf_tensor.h
//
// A tensor in an Example, which has lists only: its values as the feature NAME (in bytes,
// unless they are floats or integers that Example has a list for), its sizes as the
// integers "NAME/shape", and of bytes its type as the text "NAME/dtype".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <c10/util/ArrayRef.h>

#include "lockstep/data/field.h"
#include "lockstep/data/tf_example.h"

namespace lockstep::data {

inline constexpr std::string_view kShapeEnding = "/shape";
std::string shape_name(std::string_view name);
std::string type_name(std::string_view name);

/// The tensor that `feature` is by what stands beside it, if that is there and fits its bytes.
std::optional<Field> tensor_field(const Example& example, const Feature& feature);

/// Of Kind::Floats and Kind::Ints.
c10::ScalarType type_of_list(const Feature& feature) noexcept;

/// Of values of such a type and shape; nothing if no memory could hold them.
std::optional<std::uint64_t> bytes_of_shape(c10::ScalarType type, c10::ArrayRef<std::int64_t> shape);

}  // namespace lockstep::data
