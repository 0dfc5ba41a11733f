// lockstep/comm/slot_copy.h
//
// Copies messages into and out of slot lines, compiled once per instruction set like
// the reductions. A payload written in one wide store takes one entry of the core's
// store buffer: by 16 bytes, a message of 1 KiB overflows it and its sender stalls.
#pragma once

namespace lockstep::comm {

struct SlotCopy {
  /// Writes `bytes` at `data` into lines from `lines` on, each with `stamp` behind 56 bytes.
  void (*push)(void* lines, const void* data, unsigned long bytes, unsigned long stamp);
  /// Takes `bytes` out of lines that have arrived.
  void (*pull)(void* data, const void* lines, unsigned long bytes);
};

SlotCopy slot_copy_baseline();
SlotCopy slot_copy_avx2();
SlotCopy slot_copy_avx512();

/// The best for this processor.
const SlotCopy& slot_copy();

}  // namespace lockstep::comm
