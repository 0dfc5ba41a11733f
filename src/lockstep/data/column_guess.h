// lockstep/data/column_guess.h
//
// What a column of a table holds, from all of its values as text.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/data/field.h"

namespace lockstep::data {

class ColumnGuess {
 public:
  void add(std::string_view text);
  /// int64, else float64 (NaN where a number is missing), else bool, else Text.
  Field field(const std::string& name) const;

 private:
  enum class Kind { Nothing, Int, Float, Bool, Text };
  static Kind kind_of(std::string_view text);
  static Kind joined(Kind one, Kind other);

  Kind kind_ = Kind::Nothing;
  bool missing_ = false;
};

/// The column that holds the values of both, of tables that are read as one.
Field joined_column(const Field& one, const Field& other);

}  // namespace lockstep::data
