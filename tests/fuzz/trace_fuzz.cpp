// tests/fuzz/trace_fuzz.cpp
//
// Feeds any bytes to the reader of trace blobs: an Error or a right answer, nothing
// else. The hash would stop nearly every input at the door, so each is also tried
// with the hash set right.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/profile/trace.h"

namespace {

using namespace lockstep;

void check(const std::string& blob) {
  std::optional<profile::ProcessEvents> process;
  try {
    process = profile::decode(blob);
  } catch (const Error& e) {
    if (e.fault() != Fault::Data) std::abort();
    return;
  }
  // Bytes may differ from the input (integers have longer forms); the meaning may not.
  const auto packed = profile::encode(*process);
  if (profile::encode(profile::decode(packed)) != packed) std::abort();
  const auto file = "/dev/shm/lockstep_trace_fuzz." + std::to_string(getpid());
  profile::write_trace(file, {packed});
  std::remove(file.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string blob(reinterpret_cast<const char*>(data), size);
  check(blob);
  if (size >= 8) blob.resize(size - 8);
  const auto hash = hash64(blob);
  for (int shift = 0; shift < 64; shift += 8) blob += static_cast<char>(hash >> shift);
  check(blob);
  return 0;
}
