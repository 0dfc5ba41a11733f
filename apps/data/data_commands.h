// apps/data/data_commands.h
//
// One function per command under `lockstep data`.
#pragma once

#include <CLI/CLI.hpp>

namespace lockstep::apps {

void add_data_get(CLI::App& data);
void add_data_head(CLI::App& data);
void add_data_info(CLI::App& data);
void add_data_split(CLI::App& data);
void add_data_verify(CLI::App& data);

}  // namespace lockstep::apps
