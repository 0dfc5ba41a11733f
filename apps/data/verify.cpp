// `lockstep data verify`: every sample read, its checksum compared.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/data_commands.h"
#include "data/source_options.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/data/image.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/on_threads.h"
#include "progress.h"

namespace lockstep::apps {
namespace {

struct Options {
  SourceOptions from;
  bool json = false;
};

struct Finding {
  std::int64_t sample;
  std::string name;
  std::string reason;
};

struct Opened {
  data::DatasetPtr set;
  bool taken = false;  // checksums, now
  bool kept = true;
};

/// Takes the checksums of what is looked at for the first time: later looks are compared with that.
Opened open_with_checksums(const Options& options) {
  const auto [files, chosen] = data::source_named(options.from.source, options.from.open);
  const auto paths = data::expand(files);
  if (paths.size() == 1 && !std::filesystem::exists(paths[0]))  // a built-in set
    return {data::open(options.from.source, options.from.open)};
  Opened opened;
  std::vector<data::Index> indices;
  for (const auto& path : paths) {
    auto index = data::kept_index_of(path, chosen);
    if (!index) {
      index = data::index_of(path, chosen);
      const bool kept =
          index->checksums.empty() ? data::take_checksums(path, *index) : data::kept_index_of(path, chosen).has_value();
      opened.taken = true;
      opened.kept = opened.kept && kept;
    }
    indices.push_back(std::move(*index));
  }
  opened.set = data::join_files(paths, std::move(indices));
  return opened;
}

/// Files that are longer or shorter than they were, by which no sample can be found any more.
std::vector<std::string> cut_files(const Options& options) {
  std::vector<std::string> all;
  for (const auto& path : data::expand(data::source_named(options.from.source, {}).files)) {
    for (auto& one : data::files_of_other_size(path)) all.push_back(std::move(one));
  }
  return all;
}

/// An image whose bytes are those of the scan may still have been torn from the start.
void check_images(const data::Schema& schema, data::Sample& sample) {
  for (std::size_t place = 0; place < schema.size(); ++place) {
    const bool image = schema[place].encoding == data::Encoding::Jpeg || schema[place].encoding == data::Encoding::Png;
    const auto& value = sample.values[place];
    if (image && !value.missing && data::has_decoder(schema[place].encoding))
      data::decode_image(value.bytes, 0, sample.scratch);
  }
}

void run(Options options) {
  options.from.open.as_kept = true;
  options.from.open.checksums = true;
  const auto cut = cut_files(options);
  if (!cut.empty()) {
    if (options.json) fmt::print("{}", json_text({{"files_of_other_size", cut}}));
    for (const auto& one : cut) fmt::print(stderr, "lockstep: {}\n", one);
    fmt::print(stderr, "lockstep: if the change was meant, remove the index (.lsx)\n");
    end_with(exit_code::kFailed);
  }
  const auto [set, first_time, kept] = open_with_checksums(options);
  std::vector<Finding> findings;
  std::mutex mutex;
  std::atomic<std::int64_t> without = 0;
  {
    Progress progress("verifying", "samples", set->size());
    data::on_threads(set->size(), [&, &set = set](std::int64_t index, data::Sample& sample) {
      try {
        if (!set->verify(index)) ++without;
        set->read(index, sample);
        try {
          check_images(set->schema(), sample);
        } catch (Error& error) {
          throw error.during("decoding " + set->name(index));
        }
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        findings.push_back({index, set->name(index), error.what()});
      }
      progress.add(1);
    });
  }
  std::sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) { return a.sample < b.sample; });
  if (options.json) {
    auto corrupt = nlohmann::json::array();
    for (const auto& finding : findings) {
      corrupt.push_back({{"sample", finding.sample}, {"name", finding.name}, {"reason", finding.reason}});
    }
    fmt::print("{}", json_text({{"samples", set->size()},
                                {"corrupt", corrupt},
                                {"checksums_taken_now", first_time},
                                {"checksums_kept", kept}}));
  } else {
    for (const auto& finding : findings) fmt::print("{}\n", finding.reason);
    const auto bad = findings.size();
    if (bad > 0)
      fmt::print("{} of {} samples are corrupt. If the change was meant, remove the index (.lsx)\n", bad, set->size());
    else if (!kept)
      fmt::print("{} samples can be read; there were no checksums yet, and they could not be kept\n", set->size());
    else if (first_time)
      fmt::print("{} samples; there were no checksums yet: they are kept from now on\n", set->size());
    else if (without > 0)
      fmt::print("{} samples can be read; {} have no checksum to compare\n", set->size(), without.load());
    else
      fmt::print("{} samples are what they were\n", set->size());
  }
  end_with(findings.empty() ? exit_code::kDone : exit_code::kFailed);
}

}  // namespace

void add_data_verify(CLI::App& data) {
  auto options = std::make_shared<Options>();
  auto* command =
      data.add_subcommand("verify", "Read every sample and compare its checksum; exit code 1 if one is corrupt");
  command->footer("Example:\n  lockstep data verify 'train-*.tar'");
  options->from.add_to(*command);
  command->add_flag("--json", options->json, "For scripts");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
