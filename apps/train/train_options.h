// apps/train/train_options.h
//
// What `lockstep train` and each of its ranks are told alike.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lockstep/core/config.h"

namespace lockstep::apps {

/// Set for ranks whose standard error is a terminal in the end.
inline constexpr const char kTerminal[] = "LOCKSTEP_TERMINAL";

struct TrainOptions {
  std::string recipe;
  std::vector<std::string> assignments;
  bool print_hash = false;
  bool json = false;

  void add_to(CLI::App& command) {
    command.add_option("recipe", recipe, "TOML file, see recipes/")->required();
    command.add_option("settings", assignments, "key=value, over what the recipe says");
    command.add_flag("--print-hash", print_hash, "At the end print the hash of all weights");
    command.add_flag("--json", json, "Print the result as JSON");
  }
};

inline Config read_recipe(const TrainOptions& options) {
  Config recipe = Config::from_file(options.recipe);
  for (const auto& assignment : options.assignments) recipe.set(assignment);
  return recipe;
}

}  // namespace lockstep::apps
