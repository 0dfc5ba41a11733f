// apps/commands.h
//
// One function per subcommand, each in its own file: it adds the subcommand with
// its options to the program. The callback does the work and throws
// lockstep::Error, which main() turns into a message and an exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::apps {

void add_bench(CLI::App& app);
void add_doctor(CLI::App& app);

}  // namespace lockstep::apps
