// tests/fuzz/control_fuzz.cpp
//
// Feeds any bytes to the readers of the control channel. The first byte says in
// pieces of what size the rest arrives: frames must not depend on it. What a reader
// of texts accepts must survive being written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/control_protocol.h"

namespace {

using namespace lockstep::comm::control;

void check(bool holds) {
  if (!holds) std::abort();
}

/// Everything read, written again.
std::string read_all(std::string_view bytes, std::size_t piece, bool& broken) {
  FrameReader reader;
  std::string written;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(bytes.substr(at, piece));
    while (const auto frame = reader.next()) written += to_bytes(*frame);
  }
  broken = reader.broken();
  return written;
}

void check_texts(std::string_view text) {
  if (const auto hello = parse_hello(text)) {
    const auto again = parse_hello(to_text(*hello));
    check(again && again->secret == hello->secret && again->host == hello->host);
  }
  if (const auto abort = parse_abort(text)) {
    check(abort->exit_code != 0);
    const auto again = parse_abort(to_text(*abort));
    check(again && again->rank == abort->rank && again->exit_code == abort->exit_code && again->fault == abort->fault &&
          again->message == abort->message);
  }
  const auto statuses = parse_statuses(text);
  const auto written = to_text(statuses);
  check(parse_statuses(written).size() == statuses.size() && to_text(parse_statuses(written)) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  bool broken = false, broken_at_once = false;
  const auto in_pieces = read_all(bytes, std::size_t{data[0]} + 1, broken);
  const auto at_once = read_all(bytes, std::max<std::size_t>(bytes.size(), 1), broken_at_once);
  check(in_pieces == at_once && broken == broken_at_once);
  check(bytes.starts_with(at_once));
  check_texts(bytes);
  FrameReader reader;
  reader.append(bytes);
  while (const auto frame = reader.next()) check_texts(frame->payload);
  return 0;
}
