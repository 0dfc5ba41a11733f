// tests/fuzz/tfrecord_fuzz.cpp
//
// Feeds any bytes to the reader of TFRecord. The checksums would stop nearly every input
// at the door, so each is also tried as the data of two records with right ones.
#include "format_fuzz.h"
#include "lockstep/data/record_frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep::data;
  const std::string_view bytes = text_of(data, size);
  round_trip("tfrecord", bytes);
  if (size == 0) return 0;
  const auto first = std::min<std::size_t>(data[0], size - 1);
  const auto record = [](std::string_view text) { return framed(as_bytes(text)); };
  round_trip("tfrecord", record(bytes.substr(1, first)) + record(bytes.substr(1 + first)));
  return 0;
}
