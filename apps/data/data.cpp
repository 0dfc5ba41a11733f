// `lockstep data`: looks into data sets.
#include "commands.h"
#include "data/data_commands.h"

namespace lockstep::apps {

void add_data(CLI::App& app) {
  auto* command = app.add_subcommand("data", "Show, check, split and fetch data sets");
  command->require_subcommand(1);
  add_data_get(*command);
  add_data_info(*command);
  add_data_head(*command);
  add_data_verify(*command);
  add_data_split(*command);
}

}  // namespace lockstep::apps
