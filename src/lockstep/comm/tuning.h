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
  /// All-reduce: every rank sends everything to everyone, up to this many bytes in all (ranks x size).
  std::size_t one_hop_bytes = 4 << 10;
  /// All-reduce through message slots, each rank reducing its slice, up to this size.
  std::size_t two_hop_bytes = 8 << 10;
  /// Above this the communication thread takes a collective over.
  std::size_t inline_bytes = 1 << 20;
  /// Bulk work looks at the urgent lane after this many bytes.
  std::size_t piece_bytes = 1 << 20;
  /// Private memory is staged through windows of this size.
  std::size_t window_bytes = 256 << 10;

  std::string json() const;
  static Tuning from_json(const std::string& text);
};

/// The table cached for this host and number of local ranks, if there is one.
std::optional<Tuning> cached_tuning(int local_ranks);
void cache_tuning(int local_ranks, const Tuning& tuning);

}  // namespace lockstep::comm
