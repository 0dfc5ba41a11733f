// tests/fuzz/tfrecord_fuzz.cpp
//
// Feeds any bytes to the reader of TFRecord. The checksums would stop nearly every input
// at the door, so each is also tried as the data of two records with right ones.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/data/record_frames.h"
#include "round_trip_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  fuzz::scan_and_read("tfrecord", bytes, {}, {});
  if (size == 0) return 0;
  const auto first = std::min<std::size_t>(data[0], size - 1);
  const auto framed = [](std::string_view text) { return data::framed(data::as_bytes(text)); };
  fuzz::scan_and_read("tfrecord", framed(bytes.substr(1, first)) + framed(bytes.substr(1 + first)), {}, {});
  return 0;
}
