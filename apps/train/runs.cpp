// `lockstep runs`: what earlier runs have left.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/models/safetensors.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/run_folder.h"
#include "train/train_options.h"

namespace lockstep::apps {
namespace {

using train::RunFolder;

constexpr const char kExamples[] = R"(Examples:
  lockstep runs                                  all of them
  lockstep runs show mnist_cnn-1
  lockstep runs compare mnist_cnn-1 mnist_cnn-2
  lockstep runs resume mnist_cnn-1 -n 8          go on from its newest checkpoint
  lockstep runs resume mnist_cnn-1 epochs=10     and further than was planned
  lockstep runs export mnist_cnn-1 weights.safetensors)";

/// The last evaluation's figures in one line.
std::string outcome_of(const nlohmann::json& about) {
  const auto result = about.value("result", nlohmann::json::object());
  if (result.empty()) return "";
  std::string text = fmt::format("step {}  loss {:.4f}", result.value("steps", 0), result.value("loss", 0.0));
  const auto evaluations = result.value("evaluations", nlohmann::json::array());
  if (evaluations.empty()) return text;
  text += "  " + evaluations.back().value("of", "") + ":";
  for (const auto& [name, value] : evaluations.back().at("figures").items()) {
    if (!name.starts_with("confusion/")) text += fmt::format(" {} {:.4f}", name, value.get<double>());
  }
  return text;
}

void list(const std::string& root, bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& name : RunFolder::list(root)) {
    const auto about = RunFolder::open(root, name).about();
    if (json) {
      all.push_back({{"name", name}, {"about", about}});
    } else {
      fmt::print("{:24} {:8} {}  {}\n", name, about.value("state", ""), about.value("started", ""), outcome_of(about));
    }
  }
  if (json) fmt::print("{}", json_text(all));
}

void show(const RunFolder& run, bool json) {
  if (json) return fmt::print("{}", json_text(run.about()));
  const auto& about = run.about();
  fmt::print("{}: {}, started {} on {}\n{}\n\n{}\n", run.name(), about.value("state", ""), about.value("started", ""),
             about.value("host", ""), outcome_of(about), about.value("recipe", ""));
  std::string steps;
  for (const auto step : train::CheckpointFolder(run.checkpoints()).steps()) steps += fmt::format(" {}", step);
  fmt::print("checkpoints:{}\n", steps.empty() ? " none" : steps);
}

/// By dotted key.
nlohmann::json flat(const RunFolder& run) { return nlohmann::json::parse(run.recipe().json()).flatten(); }

void compare(const RunFolder& one, const RunFolder& other) {
  const auto mine = flat(one), theirs = flat(other);
  std::vector<std::string> keys;
  for (const auto& both : {mine, theirs}) {
    for (const auto& [key, value] : both.items()) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const auto text = [](const nlohmann::json& json, const std::string& key) {
    return json.contains(key) ? json.at(key).dump() : std::string("-");
  };
  fmt::print("{:28} {:24} {}\n", "", one.name(), other.name());
  for (const auto& key : keys) {
    if (text(mine, key) != text(theirs, key)) fmt::print("{:28} {:24} {}\n", key, text(mine, key), text(theirs, key));
  }
  fmt::print("{:28} {}\n{:28} {}\n", one.name(), outcome_of(one.about()), other.name(), outcome_of(other.about()));
}

/// Beside the weights, whose names hold no slash, a checkpoint has what others remember, as "optimizer/…".
parallel::Parameters weights_of(const parallel::Parameters& all) {
  parallel::Parameters weights = all;
  std::erase_if(weights, [](const auto& tensor) { return tensor.name.find('/') != std::string::npos; });
  return weights;
}

/// The averaged weights in place of the last ones; buffers are not averaged.
void take_averages(parallel::Parameters& weights, const train::Checkpoint& checkpoint) {
  bool any = false;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    for (auto& weight : weights) {
      if (name != "ema/" + weight.name) continue;
      weight.tensor = tensor;
      any = true;
    }
  }
  if (!any)
    fail(Fault::Usage, "the run has kept no averages of its weights; [callbacks.ema] in its recipe makes it do so");
}

void export_weights(const RunFolder& run, const std::string& path, bool averaged) {
  check_can_write(path);
  const auto newest = train::CheckpointFolder(run.checkpoints()).newest();
  if (!newest) fail(Fault::Usage, fmt::format("{} holds no checkpoint that is whole", run.checkpoints()));
  auto weights = weights_of(newest->tensors);
  if (averaged) take_averages(weights, *newest);
  models::write_safetensors(path, weights, {{"format", "pt"}});
  fmt::print("{} tensors of step {} in {}\n", weights.size(), newest->step, path);
}

struct Options {
  TrainOptions train;
  std::string name, other, path;
  bool json = false;
  bool averaged = false;
};

void resume(Options& options) {
  RunFolder run = RunFolder::open(options.train.runs, options.name);
  run.change(options.train.assignments);
  run.set_state("running");
  options.train.rank.folder = run.path();
  options.train.rank.resume = true;
  launch_training(options.train);
}

}  // namespace

void add_runs(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("runs", "What earlier runs have left: list, show, compare, resume, export");
  command->footer(kExamples);
  const auto common = [options](CLI::App& to) {
    to.add_option("--runs", options->train.runs, "Folder of all runs")->capture_default_str();
  };
  const auto named = [options](CLI::App& to) { to.add_option("name", options->name, "Of the run")->required(); };
  common(*command);
  command->add_flag("--json", options->json, "Print as JSON");
  command->require_subcommand(0, 1);
  command->callback([options, command] {
    if (command->get_subcommands().empty()) list(options->train.runs, options->json);
  });

  auto* shown = command->add_subcommand("show", "One run: state, result, recipe, checkpoints");
  named(*shown);
  common(*shown);
  shown->add_flag("--json", options->json, "Print as JSON");
  shown->callback([options] { show(RunFolder::open(options->train.runs, options->name), options->json); });

  auto* compared = command->add_subcommand("compare", "In what two runs differ");
  named(*compared);
  compared->add_option("other", options->other, "Of the other run")->required();
  common(*compared);
  compared->callback([options] {
    compare(RunFolder::open(options->train.runs, options->name), RunFolder::open(options->train.runs, options->other));
  });

  auto* resumed = command->add_subcommand("resume", "Go on from the newest checkpoint, on any number of ranks");
  named(*resumed);
  options->train.add_to(*resumed);
  resumed->callback([options] { resume(*options); });

  auto* exported = command->add_subcommand("export", "The weights of the newest checkpoint as one safetensors file");
  named(*exported);
  exported->add_option("file", options->path, "To be written")->required();
  exported->add_flag("--ema", options->averaged, "Those averaged by [callbacks.ema]");
  common(*exported);
  exported->callback([options] {
    export_weights(RunFolder::open(options->train.runs, options->name), options->path, options->averaged);
  });
}

}  // namespace lockstep::apps
