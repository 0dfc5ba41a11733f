// `lockstep pack`: a data set in another format.
#include "lockstep/data/pack.h"

#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/source_options.h"
#include "disk_use.h"
#include "interrupt.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/transformed.h"
#include "progress.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char kExamples[] = R"(Examples:
  lockstep pack images/ train.tar                     a folder of images by class into one archive
  lockstep pack images/ train.tar --shard-size 256MiB train-00000.tar, train-00001.tar, ...
  lockstep pack mnist mnist.h5 --compression deflate
  lockstep pack 'part-*.csv' all.npz --fields x,y
  lockstep pack corpus.txt corpus.tokens --transform 'tokenise text tokenizer=bytes type=uint16'
A pack that was interrupted goes on when the same command is given again.)";

struct Options {
  SourceOptions from;
  std::string destination;
  std::string shard_size;
  std::vector<std::string> transforms;
  data::PackOptions pack;
  bool json = false;
};

void run(Options options) {
  if (!options.shard_size.empty()) {
    options.pack.shard_bytes = parse_bytes(options.shard_size);
    if (options.pack.shard_bytes < 1) fail(Fault::Usage, "--shard-size: a shard of no bytes holds no samples");
  }
  options.pack.source = data::source_of(options.from.source, options.from.open);
  for (const auto& step : options.transforms) options.pack.source.identity += "\n" + step;
  const auto source = data::transformed(data::open(options.from.source, options.from.open), options.transforms);
  data::PackResult result;
  until_interrupted([&](const Interrupt& interrupt) {
    Progress progress("packing", "samples", source->size());
    result = data::pack(source, options.destination, options.pack, [&](std::int64_t count) {
      interrupt.check();
      progress.add(count);
    });
  });
  const std::int64_t bytes = disk_use(result.files).bytes;
  if (options.json) {
    fmt::print("{}", json_text({{"samples", result.samples},
                                {"files", result.files},
                                {"bytes", bytes},
                                {"shards_found", result.shards_found}}));
    return;
  }
  fmt::print("{} samples in {} file{}, {}: {}{}\n", result.samples, result.files.size(),
             result.files.size() == 1 ? "" : "s", format_bytes(bytes), result.files.front(),
             result.files.size() == 1 ? "" : " …");
  if (result.shards_found > 0) fmt::print("{} of them were there already\n", result.shards_found);
}

}  // namespace

void add_pack(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("pack", "Convert a data set to another format, in parallel, resumable");
  command->footer(kExamples);
  options->from.add_to(*command);
  command->add_option("destination", options->destination, "File to write; its extension says the format")->required();
  command->add_option("--to", options->pack.format, "Format to write, where the extension does not say");
  auto* shard_size =
      command->add_option("--shard-size", options->shard_size, "About so large each, e.g. 256MiB; by default one file");
  command->add_option("--shard-samples", options->pack.shard_samples, "Samples of a shard, instead of --shard-size")
      ->check(whole_from(1))
      ->excludes(shard_size);
  auto* compression =
      command->add_option("--compression", options->pack.write.compression, "What the format offers, e.g. deflate");
  command->add_option("--level", options->pack.write.level, "Of the compression")->needs(compression);
  command->add_option("--fields", options->pack.fields, "Only these, in this order")->delimiter(',');
  command
      ->add_option("--transform", options->transforms,
                   "Before it is written, once or several times: 'resize image size=64'")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "For scripts");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
