// lockstep/profile/trace.h
//
// Collects the events of span.h and writes them as one file that chrome://tracing
// and ui.perfetto.dev open. Each rank packs its events into a blob; one rank gathers
// the blobs and writes the trace of all. A snapshot may be taken at any time from
// any thread: it neither stops nor blocks the threads that record. A span still open
// is not in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/profile/span.h"

namespace lockstep::profile {

using EventKind = detail::Kind;

/// Times are nanoseconds of CLOCK_REALTIME.
struct Event {
  EventKind kind = EventKind::Span;
  std::uint32_t name = 0;  // index into ProcessEvents::names
  std::int64_t start_ns = 0;
  std::int64_t duration_ns = 0;  // of a span
  std::int64_t bytes = 0;        // of a span
  double value = 0;              // of a counter
};

struct ThreadEvents {
  std::string name;
  std::int64_t overwritten = 0;  // events that the ring no longer held
  std::vector<Event> events;     // in the order in which they ended
};

struct ProcessEvents {
  std::string name;
  int rank = -1;  // -1: not known
  std::vector<std::string> names;
  std::vector<ThreadEvents> threads;
};

/// What this process has recorded so far.
ProcessEvents snapshot();

/// Packs into a few bytes per event, and back. decode() fails with Fault::Data on
/// bytes that encode() did not write.
std::string encode(const ProcessEvents& process);
ProcessEvents decode(std::string_view blob);

/// encode(snapshot()).
std::string serialize_events();

/// Writes the blobs of all ranks into one file, under another name first, so that a reader
/// never sees half of it. An empty blob is a rank that left nothing. clock_offset_ns[r] is
/// added to the times of rank r, to bring them to the clock of one rank; none means zeros.
void write_trace(const std::string& path, const std::vector<std::string>& blobs_by_rank,
                 const std::vector<std::int64_t>& clock_offset_ns = {});

}  // namespace lockstep::profile
