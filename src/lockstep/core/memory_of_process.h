// lockstep/core/memory_of_process.h
//
// What the kernel says of this process's memory, and how the C library deals with it.
#pragma once

#include <cstdint>

namespace lockstep {

/// Its share of what it has mapped, in bytes: memory that several ranks map counts for each of them in part. Walks
/// through all mappings, which takes milliseconds. 0 where the kernel does not say.
std::int64_t proportional_set_size();

/// Memory of its own that is no file's and not shared, in bytes.
std::int64_t anonymous_bytes();

/// What is freed from now on stays with the process, for what comes next: pages that go back to the kernel come anew in
/// the next step, each by a fault and filled with zeros.
void keep_freed_memory() noexcept;
/// What is free now goes back to the kernel.
void give_back_freed_memory() noexcept;

}  // namespace lockstep
