// tests/fuzz/csv_fuzz.cpp
//
// Feeds any bytes to the reader of tables; the first one says how the table is opened.
#include "format_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  if (size == 0) return 0;
  OpenOptions options;
  options.header = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) options.separator = ";";
  OpenOptions as_written;
  as_written.separator = ",";
  round_trip("csv", text_of(data + 1, size - 1), options, as_written);
  return 0;
}
