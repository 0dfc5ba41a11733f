// lockstep/comm/tuning.h
//
// Sizes at which one algorithm hands over to another. Measured once per host by
// `lockstep bench calibrate` and cached; the defaults are sane before. All ranks
// of a host read the same table: it is part of the shared segment.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::comm {

struct Tuning {
  /// All-reduce by recursive doubling through message slots, up to this size; for powers of two of ranks.
  std::size_t doubling_bytes = 2 << 10;
  /// All-reduce through slots, each rank reducing its slice, up to this size; for other numbers of ranks.
  std::size_t two_hop_bytes = 8 << 10;
  /// Above this the communication thread takes a collective over.
  std::size_t inline_bytes = 1 << 20;
  /// Bulk work looks at the urgent lane after this many bytes.
  std::size_t piece_bytes = 1 << 20;
  /// Private memory is staged through windows of this size.
  std::size_t window_bytes = 512 << 10;

  std::string json() const;
  /// Of a file that another version may have written: what it does not know it leaves alone.
  static Tuning from_json(const std::string& text);
};

/// The table in LOCKSTEP_TUNING, if any. Written by hand, so a key it does not know is an Error.
std::optional<Tuning> given_tuning();
/// That, else the one cached for this host and number of local ranks.
std::optional<Tuning> cached_tuning(int local_ranks);
/// Returns where it was written.
std::string cache_tuning(int local_ranks, const Tuning& tuning);

}  // namespace lockstep::comm
