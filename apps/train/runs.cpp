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
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/metric.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/run_lock.h"
#include "train/checkpoint_choice.h"
#include "train/run_chart.h"
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
  lockstep runs plot mnist_cnn-1 mnist_cnn-2 -o loss.svg
  lockstep runs plot mnist_cnn-1 --of validation/accuracy -o accuracy.svg
  lockstep runs export mnist_cnn-1 weights.safetensors
  lockstep runs export mnist_cnn-1 weights.safetensors --best
                                                 of the checkpoint with the best validation)";

/// JSON has null for what is no number.
std::string number_text(const nlohmann::json& json) {
  return json.is_number() ? fmt::format("{:.4f}", json.get<double>()) : "nan";
}

/// The last evaluation's figures in one line.
std::string outcome_of(const nlohmann::json& about) {
  const auto result = about.value("result", nlohmann::json::object());
  if (result.empty()) return "";
  std::string text =
      fmt::format("step {}  loss {}", result.value("steps", 0), number_text(result.value("loss", nlohmann::json())));
  const auto evaluations = result.value("evaluations", nlohmann::json::array());
  if (evaluations.empty()) return text;
  text += "  " + evaluations.back().value("of", "") + ":";
  for (const auto& [name, value] : evaluations.back().at("figures").items()) {
    if (!name.starts_with(train::kConfusion)) text += fmt::format(" {} {}", name, number_text(value));
  }
  return text;
}

/// "running" is what was true when it was written: who was killed could not say otherwise.
nlohmann::json about_now(const RunFolder& run) {
  nlohmann::json about = run.about();
  if (run.state() == "running" && !train::RunLock::is_held(run.path())) about["state"] = "died";
  return about;
}

void list(const std::string& root, bool json) {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& name : RunFolder::list(root)) {
    // One that cannot be read does not hide the others.
    try {
      const auto about = about_now(RunFolder::open(root, name));
      const std::string line = fmt::format("{:24} {:8} {}  {}\n", name, about.value("state", ""),
                                           about.value("started", ""), outcome_of(about));
      if (!json) fmt::print("{}", line);
      all.push_back({{"name", name}, {"about", about}});
    } catch (...) {
      const Error error = current_error();
      if (!json) fmt::print("{:24} {}\n", name, error.what());
      all.push_back({{"name", name}, {"error", error.what()}});
    }
  }
  if (json) return fmt::print("{}", json_text(all));
  if (all.empty()) fmt::print(stderr, "there are no runs in {}\n", root);
}

void show(const RunFolder& run, bool json) {
  const auto about = about_now(run);
  if (json) return fmt::print("{}", json_text(about));
  fmt::print("{}: {}, started {} on {}\n{}\n\n{}\n", run.name(), about.value("state", ""), about.value("started", ""),
             about.value("host", ""), outcome_of(about), about.value("recipe", ""));
  std::string steps;
  for (const auto step : train::CheckpointFolder(run.checkpoints()).steps()) steps += fmt::format(" {}", step);
  fmt::print("checkpoints:{}\n", steps.empty() ? " none" : steps);
}

/// By dotted key.
nlohmann::json flat(const RunFolder& run) {
  const auto by_pointer = nlohmann::json::parse(run.recipe().json()).flatten();
  nlohmann::json result = nlohmann::json::object();
  for (const auto& [pointer, value] : by_pointer.items()) {
    std::string key = pointer.substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    result[key] = value;
  }
  return result;
}

/// Of settings that differ both values, null where one has none.
nlohmann::json difference(const RunFolder& one, const RunFolder& other) {
  const auto mine = flat(one), theirs = flat(other);
  nlohmann::json result = nlohmann::json::object();
  for (const auto& both : {mine, theirs}) {
    for (const auto& [key, value] : both.items()) {
      const auto a = mine.value(key, nlohmann::json()), b = theirs.value(key, nlohmann::json());
      if (a != b) result[key] = nlohmann::json::array({a, b});
    }
  }
  return result;
}

void compare(const RunFolder& one, const RunFolder& other, bool json) {
  const auto settings = difference(one, other);
  if (json) {
    const auto result = [](const RunFolder& run) { return run.about().value("result", nlohmann::json()); };
    return fmt::print("{}", json_text({{"runs", nlohmann::json::array({one.name(), other.name()})},
                                       {"settings", settings},
                                       {"results", nlohmann::json::array({result(one), result(other)})}}));
  }
  const auto text = [](const nlohmann::json& value) { return value.is_null() ? std::string("-") : value.dump(); };
  fmt::print("{:28} {:24} {}\n", "", one.name(), other.name());
  for (const auto& [key, values] : settings.items()) {
    fmt::print("{:28} {:24} {}\n", key, text(values[0]), text(values[1]));
  }
  if (settings.empty()) fmt::print("their recipes are the same\n");
  const auto ranks = [&](const RunFolder& run) {
    return text(run.about().value("/result/ranks"_json_pointer, nlohmann::json()));
  };
  fmt::print("{:28} {:24} {}\n", "(ranks)", ranks(one), ranks(other));
  fmt::print("{:28} {}\n{:28} {}\n", one.name(), outcome_of(one.about()), other.name(), outcome_of(other.about()));
}

void export_run(const RunFolder& run, const CheckpointChoice& choice, const std::string& path) {
  check_can_write(path);
  const auto checkpoint = chosen_checkpoint(run, choice);
  const std::size_t tensors = export_weights(checkpoint, choice, path);
  fmt::print("{} tensors of step {} in {}\n", tensors, checkpoint.step, path);
}

void plot(const std::string& root, const std::vector<std::string>& names, const std::vector<std::string>& figures,
          const std::string& path) {
  check_can_write(path);
  std::vector<RunFolder> runs;
  for (const auto& name : names) runs.push_back(RunFolder::open(root, name));
  write_whole(path, chart_of(runs, figures));
}

struct Options {
  TrainOptions train;
  CheckpointChoice choice;
  std::string name, other, file;
  std::vector<std::string> names, figures;
  bool json = false;
};

}  // namespace

void add_runs(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("runs", "What earlier runs have left: list, show, compare, plot, resume, export");
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
  compared->add_flag("--json", options->json, "Print as JSON");
  compared->callback([options] {
    compare(RunFolder::open(options->train.runs, options->name), RunFolder::open(options->train.runs, options->other),
            options->json);
  });

  auto* plotted = command->add_subcommand("plot", "Draw losses, or other figures, of runs over their steps");
  plotted->add_option("names", options->names, "Of the runs")->required();
  plotted->add_option("--of", options->figures, "Figures as TensorBoard names them: train/lr,validation/accuracy")
      ->delimiter(',');
  plotted->add_option("-o,--output", options->file, "SVG file to be written")->required();
  common(*plotted);
  plotted->callback([options] { plot(options->train.runs, options->names, options->figures, options->file); });

  auto* resumed = command->add_subcommand("resume", "Go on from the newest checkpoint, on any number of ranks");
  named(*resumed);
  options->train.add_to(*resumed);
  resumed->callback([options] { resume_training(options->train, options->name); });

  auto* exported =
      command->add_subcommand("export", "The weights of a checkpoint, the newest, as one safetensors file");
  named(*exported);
  exported->add_option("file", options->file, "To be written")->required();
  options->choice.add_to(*exported);
  common(*exported);
  exported->callback(
      [options] { export_run(RunFolder::open(options->train.runs, options->name), options->choice, options->file); });
}

}  // namespace lockstep::apps
