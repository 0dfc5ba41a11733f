// lockstep/core/paths.h
//
// Places that a program knows: where it lies, and where it may keep what it learnt.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// "$XDG_CACHE_HOME/lockstep" or "~/.cache/lockstep", whether it is there or not.
std::string cache_path();
/// The same, created if absent: for whoever writes into it.
std::string cache_folder();

/// The file that this process runs.
std::filesystem::path own_program();

}  // namespace lockstep
