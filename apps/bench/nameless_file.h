// apps/bench/nameless_file.h
//
// Files by which a benchmark gives data to the programs that it measures. They lie in the cache folder and have no name
// any more, so that nothing is left of them however the benchmark ends.
#pragma once

#include <functional>
#include <string>

#include "lockstep/core/handle.h"

namespace lockstep::apps {

/// Empty, or what `write` leaves at the path that it gets.
FileDescriptor nameless_file(const std::string& bench, const std::function<void(const std::string& path)>& write = {});

/// By which other programs read it while it is open here; empty if there is none.
std::string path_of(const FileDescriptor& file);

}  // namespace lockstep::apps
