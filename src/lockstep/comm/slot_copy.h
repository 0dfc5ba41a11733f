// lockstep/comm/slot_copy.h
//
// Copies a message into a slot, compiled once per instruction set like the
// reductions. A line written in one wide store takes one entry of the core's store
// buffer: by 16 bytes, a message of 1 KiB overflows it and its sender stalls.
#pragma once

namespace lockstep::comm {

/// Writes `bytes` at `data` into the slot at `lines`, see SlotLine, and then `stamp`.
using SlotCopy = void (*)(void* lines, const void* data, unsigned long bytes, unsigned long stamp);

SlotCopy slot_copy_baseline();
SlotCopy slot_copy_avx2();
SlotCopy slot_copy_avx512();

/// The best for this processor.
SlotCopy slot_copy();

}  // namespace lockstep::comm
