// lockstep/data/datasets/number_table.h
//
// Lines of numbers with commas or spaces between them, all of equal length.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

struct NumberTable {
  std::size_t columns = 0;
  std::vector<double> numbers;  // row by row
  std::size_t rows() const noexcept { return columns == 0 ? 0 : numbers.size() / columns; }
};

/// Fault::Data, naming the line, on anything else.
NumberTable parse_numbers(std::string_view text);

}  // namespace lockstep::data
