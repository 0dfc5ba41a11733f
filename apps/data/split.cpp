// `lockstep data split`: training, validation and test, or folds, each in a file of its own.
#include "lockstep/data/split.h"

#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_commands.h"
#include "data/source_options.h"
#include "interrupt.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/data/pack.h"
#include "progress.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep data split flowers.csv parts.csv                       parts-train.csv, parts-val.csv, parts-test.csv
  lockstep data split digits.npz d.npz --parts train=0.9,test=0.1 --stratify label
  lockstep data split flowers.csv f.csv --folds 5 --seed 7        f-fold0.csv ... f-fold4.csv
The same seed gives the same parts, on any machine.)";

struct Options {
  SourceOptions from;
  std::string destination;
  std::vector<std::string> parts = {"train=0.8", "val=0.1", "test=0.1"};
  int folds = 0;
  std::string stratify;
  std::uint64_t seed = 0;
  bool json = false;
};

using NamedParts = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

/// Each becomes part of a file's name.
void check_names(const NamedParts& parts) {
  std::set<std::string> known;
  for (const auto& [name, samples] : parts) {
    if (name.empty() || name.find('/') != std::string::npos) {
      fail(Fault::Usage, fmt::format("--parts: '{}' cannot be in the name of a file; expected NAME=SHARE", name));
    }
    if (!known.insert(name).second) fail(Fault::Usage, fmt::format("--parts names '{}' twice", name));
  }
}

NamedParts parts_of(const data::Dataset& set, const Options& options) {
  data::SplitOptions split;
  split.seed = options.seed;
  if (!options.stratify.empty()) split.classes = data::labels_of(set, options.stratify);
  NamedParts named;
  if (options.folds > 0) {
    for (auto& fold : data::folds(set.size(), options.folds, split)) {
      named.emplace_back(fmt::format("fold{}", named.size()), std::move(fold));
    }
    return named;
  }
  for (const auto& part : options.parts) {
    const auto equals = part.find('=');
    char* end = nullptr;
    const std::string share = equals == std::string::npos ? "" : part.substr(equals + 1);
    split.shares.push_back(std::strtod(share.c_str(), &end));
    if (share.empty() || *end != 0)
      fail(Fault::Usage, fmt::format("--parts {}: expected NAME=SHARE, as in train=0.8", part));
    named.emplace_back(part.substr(0, equals), std::vector<std::int64_t>());
  }
  check_names(named);
  auto parts = data::split(set.size(), split);
  for (std::size_t i = 0; i < parts.size(); ++i) named[i].second = std::move(parts[i]);
  return named;
}

void run(const Options& options) {
  const auto set = data::open(options.from.source, options.from.open);
  auto parts = parts_of(*set, options);
  std::vector<std::string> paths;
  for (const auto& [name, samples] : parts) {
    if (samples.empty()) fail(Fault::Usage, fmt::format("part '{}' of {} samples would be empty", name, set->size()));
    paths.push_back(data::with_suffix(options.destination, name));
  }
  data::check_keeps_source(data::source_of(options.from.source, options.from.open), paths);
  auto result = nlohmann::json::object();
  std::string lines;  // in the order that was asked for
  until_interrupted([&](const Interrupt& interrupt) {
    Progress progress("splitting", "samples", set->size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto& [name, samples] = parts[i];
      const auto count = samples.size();
      data::pack(data::subset(set, std::move(samples)), paths[i], {}, [&](std::int64_t done) {
        interrupt.check();
        progress.add(done);
      });
      result[name] = {{"file", paths[i]}, {"samples", count}};
      lines += fmt::format("{:<8} {:>10} samples  {}\n", name, count, paths[i]);
    }
  });
  fmt::print("{}", options.json ? json_text(result) : lines);
}

}  // namespace

void add_data_split(CLI::App& data) {
  auto options = std::make_shared<Options>();
  auto* command = data.add_subcommand("split", "Cut a data set into training, validation and test, or into folds");
  command->footer(kExamples);
  options->from.add_to(*command);
  command->add_option("destination", options->destination, "NAME.EXT; parts are written as NAME-PART.EXT")->required();
  auto* parts = command->add_option("--parts", options->parts, "Names and shares");
  parts->delimiter(',')->capture_default_str();
  command->add_option("--folds", options->folds, "So many equal parts instead")->check(whole_from(2))->excludes(parts);
  command->add_option("--stratify", options->stratify, "Keep the shares of the classes in this field");
  command->add_option("--seed", options->seed, "Which of all possible splits")
      ->check(whole_from(0))
      ->capture_default_str();
  command->add_flag("--json", options->json, "For scripts");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
