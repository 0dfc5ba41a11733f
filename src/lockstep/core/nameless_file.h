// lockstep/core/nameless_file.h
//
// A file on a disk that has no name, so that nothing is left of it however the process ends.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/core/handle.h"

namespace lockstep {

/// In `folder`; none if it cannot be made there, and errno says why.
FileDescriptor nameless_file(const std::string& folder);
/// The file has `bytes`, zeros, and its disk the room for them: what is written there later does not find it full. An
/// errno, 0 if it is done.
int reserve(const FileDescriptor& file, std::int64_t bytes);

}  // namespace lockstep
