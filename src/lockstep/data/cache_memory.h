// lockstep/data/cache_memory.h
//
// Memory that a cache lives in: of one rank, or shared by the ranks of a host, in RAM
// or on the host's own disk. It has no name that could be left behind.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/cached_file.h"

namespace lockstep::data {

/// Zeroed, its pages taken when first written. In `folder`, as a file without a name; in RAM if "".
CacheMemory private_memory(std::size_t size, const std::string& folder);
/// The same for all ranks of `host`, which call it together and are processes, or threads, of one host.
CacheMemory shared_memory(std::size_t size, const std::string& folder, comm::Communicator& host);

/// The ranks of `group` that run on this rank's host.
std::unique_ptr<comm::Communicator> ranks_of_host(comm::Communicator& group);

}  // namespace lockstep::data
