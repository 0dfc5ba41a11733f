#include "lockstep/data/column_guess.h"

#include "lockstep/data/number_text.h"

namespace lockstep::data {

using c10::ScalarType;

ColumnGuess::Kind ColumnGuess::kind_of(std::string_view text) {
  if (parse_int64(text)) return Kind::Int;
  if (parse_float64(text)) return Kind::Float;
  return parse_bool(text) ? Kind::Bool : Kind::Text;
}

ColumnGuess::Kind ColumnGuess::joined(Kind one, Kind other) {
  if (one == other || one == Kind::Nothing) return other;
  const auto number = [](Kind kind) { return kind == Kind::Int || kind == Kind::Float; };
  return number(one) && number(other) ? Kind::Float : Kind::Text;
}

void ColumnGuess::add(std::string_view text) {
  // The usual cases first: a large table is scanned as fast as its numbers are read.
  if (kind_ == Kind::Text) return;
  if (kind_ == Kind::Int && parse_int64(text)) return;
  if (kind_ == Kind::Float && parse_float64(text)) return;
  if (is_missing(text)) {
    missing_ = true;
  } else {
    kind_ = joined(kind_, kind_of(text));
  }
}

Field ColumnGuess::field(const std::string& name) const {
  switch (kind_) {
    case Kind::Int: return {name, Encoding::Values, missing_ ? ScalarType::Double : ScalarType::Long};
    case Kind::Bool: return {name, Encoding::Values, ScalarType::Bool};
    case Kind::Text: return {name, Encoding::Text};
    case Kind::Nothing:
    case Kind::Float: break;
  }
  return {name, Encoding::Values, ScalarType::Double};
}

Field joined_column(const Field& one, const Field& other) {
  if (one == other) return one;
  const auto number = [](const Field& field) {
    return field.encoding == Encoding::Values && field.type != ScalarType::Bool;
  };
  if (number(one) && number(other)) return {one.name, Encoding::Values, ScalarType::Double};
  return {one.name, Encoding::Text};
}

}  // namespace lockstep::data
