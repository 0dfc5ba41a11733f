// lockstep/data/datasets/command.h
//
// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

namespace lockstep::data {

/// In `folder`, with empty input; what it prints goes to the file `output` there. Fault::Usage if there
/// is no such program, Fault::Io with the last line it printed if it fails.
void run_command(const std::vector<std::string>& command, const std::string& folder, const std::string& output);

}  // namespace lockstep::data
