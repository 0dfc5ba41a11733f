// lockstep/data/windows.h
//
// Samples of different length, packed into windows of one length, so that no place of
// a batch is spent on padding: the tokens of a window are those of several samples, and
// say which and where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

struct WindowOptions {
  std::string field = {};                      // values of [n]; "": the only field
  std::int64_t length = 1024;                  // of a window
  bool whole = false;                          // leave a sample in one piece if it fits, and pad the rest
  std::optional<std::int64_t> separator = {};  // put behind every sample
  std::int64_t padding = 0;                    // where no sample is
  bool full = false;                           // leave out the last window if it is not filled
};

/// Fields: the one packed, of [length]; "segment", which sample of its window each place belongs to, from
/// 1 on, 0 where there is none; "position" in that piece. Whole samples are placed where they leave least
/// room (best fit, longest first), else they follow each other as they are stored; every value of every
/// sample is in exactly one window, unless that is left out. Reads all samples once, to learn their lengths.
DatasetPtr packed_windows(DatasetPtr source, const WindowOptions& options);

}  // namespace lockstep::data
