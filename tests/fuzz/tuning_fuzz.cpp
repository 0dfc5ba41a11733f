// tests/fuzz/tuning_fuzz.cpp
//
// Feeds any text to the reader of tuning tables: an Error of Fault::Data, or a table
// inside its limits that survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using lockstep::comm::Tuning;
  std::optional<Tuning> tuning;
  try {
    tuning = Tuning::from_json(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const lockstep::Error& error) {
    if (error.fault() != lockstep::Fault::Data) std::abort();
    return 0;
  }
  // A piece or window of nothing would make a loop that never ends, a larger one would run out of the channel.
  if (tuning->piece_bytes == 0 || tuning->window_bytes == 0) std::abort();
  if (tuning->window_bytes > lockstep::comm::Channel::kWindowBytes) std::abort();
  if (tuning->json().size() >= sizeof(lockstep::comm::SegmentHeader::calibration)) std::abort();
  if (Tuning::from_json(tuning->json()).json() != tuning->json()) std::abort();
  return 0;
}
