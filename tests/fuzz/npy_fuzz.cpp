// tests/fuzz/npy_fuzz.cpp
//
// Feeds any bytes to the reader of npy heads. What it accepts must be written and read
// again as the same array, and its rows must lie in the file.
#include "format_fuzz.h"
#include "lockstep/data/npy_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  NpyHeader header;
  if (done_or_data_error([&] { header = parse_npy_header(bytes); })) {
    if (header.data_offset > size) std::abort();
    const auto written = npy_header(header.type, header.shape);
    const auto again = parse_npy_header(as_bytes(written));
    if (again.type != header.type || again.shape != header.shape || again.data_offset != written.size()) std::abort();
  }
  scan_and_read("npy", text_of(data, size));
  return 0;
}
