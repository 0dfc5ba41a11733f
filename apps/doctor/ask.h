// apps/doctor/ask.h
//
// Questions to the system that `lockstep doctor` asks. None of them throws because the
// answer is "no such thing".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "process.h"

namespace lockstep::apps {

/// The whole file without blanks around it, or empty if it cannot be read.
std::string contents(const std::filesystem::path& path);
/// Where on PATH the program is; empty if it is not.
std::filesystem::path on_path(const std::string& program);
/// Runs `program` of PATH for seconds at most: srun asks the network for its configuration.
Outcome ask(const std::string& program, const std::vector<std::string>& arguments);
std::string first_line(const std::string& text);
/// Folder of a library that this process has loaded; empty if it has not.
std::filesystem::path folder_of_loaded(const std::string& prefix);

}  // namespace lockstep::apps
