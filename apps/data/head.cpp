// `lockstep data head`: the first samples, to look at.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "data/data_commands.h"
#include "data/source_options.h"
#include "data/value_text.h"
#include "lockstep/core/error.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

struct Options {
  SourceOptions from;
  std::int64_t count = 5;
  std::int64_t first = 0;
};

void run(const Options& options) {
  const auto set = data::open(options.from.source, options.from.open);
  data::Sample sample;
  const std::int64_t first = options.first, size = set->size();
  if (first >= size) {
    fail(Fault::Usage,
         fmt::format("--first {}: {} has {} samples, the last is {}", first, options.from.source, size, size - 1));
  }
  for (std::int64_t i = first; i < first + std::min(options.count, size - first); ++i) {
    set->read(i, sample);
    fmt::print("{}\n", printable(set->name(i)));
    for (std::size_t place = 0; place < sample.values.size(); ++place) {
      fmt::print("  {:<12} {}\n", set->schema()[place].name, value_text(set->schema()[place], sample.values[place]));
    }
  }
}

}  // namespace

void add_data_head(CLI::App& data) {
  auto options = std::make_shared<Options>();
  auto* command = data.add_subcommand("head", "The first samples");
  command->footer("Example:\n  lockstep data head train.tar -n 3");
  options->from.add_to(*command);
  command->add_option("-n,--count", options->count, "How many")->check(whole_from(0))->capture_default_str();
  command->add_option("--first", options->first, "From this one on")->check(whole_from(0))->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
