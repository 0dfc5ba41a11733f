// tests/fuzz/zip_fuzz.cpp
//
// Feeds any bytes to the reader of zip archives, as samples and as arrays.
#include "format_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  scan_and_read("zip", text_of(data, size));
  scan_and_read("npz", text_of(data, size));
  return 0;
}
