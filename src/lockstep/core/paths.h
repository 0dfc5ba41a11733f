// lockstep/core/paths.h
//
// Places that a program knows: where it lies, and where it may keep what it learnt.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep {

/// "$XDG_CACHE_HOME/lockstep" or "~/.cache/lockstep"; created if absent.
std::string cache_folder();

/// The file that this process runs.
std::filesystem::path own_program();

}  // namespace lockstep
