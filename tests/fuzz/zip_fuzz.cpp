// tests/fuzz/zip_fuzz.cpp
//
// Feeds any bytes to the reader of zip archives, as samples and as arrays.
#include "format_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::data::scan_and_read("zip", data, size);
  lockstep::data::scan_and_read("npz", data, size);
  return 0;
}
