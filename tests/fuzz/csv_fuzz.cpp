// tests/fuzz/csv_fuzz.cpp
//
// Feeds any bytes to the reader of tables; the first one says how the table is opened.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "round_trip_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  lockstep::data::OpenOptions options;
  options.header = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) options.separator = ";";
  lockstep::data::OpenOptions as_written;
  as_written.separator = ",";
  lockstep::fuzz::scan_and_read("csv", {reinterpret_cast<const char*>(data) + 1, size - 1}, options, as_written);
  return 0;
}
