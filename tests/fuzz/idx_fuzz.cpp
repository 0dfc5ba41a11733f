// tests/fuzz/idx_fuzz.cpp
//
// Feeds any bytes to the reader of IDX files. What it accepts must be written and read
// again as the same rows.
#include "format_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  scan_and_read("idx", text_of(data, size));
  // Rows of no bytes may be claimed by the billion.
  const bool few = size > 6 && data[4] == 0 && data[5] == 0;
  if (few) round_trip("idx", text_of(data, size));
  return 0;
}
