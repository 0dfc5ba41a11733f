// `lockstep generate`: how a model that was trained on text would go on with another.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/text.h"
#include "lockstep/data/tokenizer.h"
#include "lockstep/models/continuation.h"
#include "lockstep/models/sampling.h"
#include "lockstep/train/recipe_tokenizer.h"
#include "lockstep/train/run_folder.h"
#include "lockstep/train/trained_model.h"
#include "train/checkpoint_choice.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;
using train::RunFolder;

constexpr const char kExamples[] = R"(Examples:
  lockstep generate gpt_bible-1 --prompt "In the beginning"
  lockstep generate gpt_bible-1 --prompt "And it came to pass" --tokens 200 --temperature 0.8 --top-k 40
  lockstep generate gpt_bible-1 --prompt "Blessed are" --temperature 0     always the likeliest token
  lockstep generate gpt_bible-1 --prompt "Blessed are" --top-p 0.9 --seed 7 --json
  lockstep generate runs/gpt_bible-1/checkpoints/0000000500 --prompt "In the beginning"
The text is that of the prompt and what follows, as it comes.)";

struct Options {
  std::string source, runs = train::kRuns, prompt, tokenizer;
  CheckpointChoice choice;
  std::int64_t tokens = 100;
  models::Sampling sampling;
  std::uint64_t seed = 0;
  bool json = false;
};

/// By name, by path, or by the path of one of its checkpoints, which is chosen then.
RunFolder named_run(Options& options) {
  const auto path = fs::path(options.source).lexically_normal();
  const auto folder = path.has_filename() ? path : path.parent_path();  // of "runs/mine/", too
  const auto checkpoints = folder.parent_path();
  if (checkpoints.filename() == "checkpoints" && fs::is_directory(folder)) {
    options.choice.step =
        parse_integer("the checkpoint", folder.filename().string(), 0, std::numeric_limits<std::int64_t>::max());
    return RunFolder(checkpoints.parent_path().string());
  }
  if (folder.has_parent_path() && RunFolder::exists(checkpoints.string(), folder.filename().string())) {
    return RunFolder(folder.string());
  }
  return RunFolder::open(options.runs, options.source);
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const RunFolder& run, const Config& recipe, const Options& options) {
  const std::string source = options.tokenizer.empty() ? train::tokenizer_of(recipe) : options.tokenizer;
  if (source.empty()) {
    fail(Fault::Usage,
         fmt::format("{} was trained on tokens, and its recipe does not say of which text: name what made "
                     "them, as --tokenizer bytes or --tokenizer bpe",
                     run.name()));
  }
  return data::make_tokenizer(source);
}

std::vector<std::int64_t> tokens_of_prompt(const Options& options, const data::Tokenizer& tokenizer,
                                           std::int64_t words) {
  const auto ids = tokenizer.encode(options.prompt);
  if (ids.empty()) fail(Fault::Usage, "--prompt is empty, and a model goes on from something: give it a word");
  const auto largest = *std::max_element(ids.begin(), ids.end());
  if (largest >= words) {
    fail(Fault::Usage, fmt::format("the prompt has token {}, and the model knows {}, from 0 on: it was trained with "
                                   "another tokenizer, or with too small a task.vocabulary",
                                   largest, words));
  }
  return {ids.begin(), ids.end()};
}

/// Of a vocabulary that has names for them: there a text ends.
bool is_special(const data::Tokenizer& tokenizer, std::int64_t token) {
  const auto all = tokenizer.specials();
  return std::any_of(all.begin(), all.end(), [token](const auto& special) { return special.second == token; });
}

void say(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void run(Options& options) {
  options.sampling.check();
  const RunFolder run = named_run(options);
  const Config recipe = run.recipe();
  if (const std::string task = recipe.get("task.name", "classification"); task != "next_token") {
    fail(Fault::Usage,
         fmt::format("{} was trained for '{}'; only models of task.name = \"next_token\" go on with a text", run.name(),
                     task));
  }
  const auto tokenizer = tokenizer_of(run, recipe, options);
  const auto checkpoint = chosen_checkpoint(run, options.choice);
  const auto model_data = train::noted_model_data(checkpoint.facts);
  const auto prompt = tokens_of_prompt(options, *tokenizer, model_data.outputs);
  const auto model = train::trained_model(recipe, model_data, weights_of(checkpoint, options.choice));
  if (const auto most = model->context(); most > 0 && std::ssize(prompt) > most) {
    log().warn("the prompt has {} tokens, more than the {} that the model looks back on: its last {} count",
               prompt.size(), most, most);
  }

  models::Continuation continuation(*model);
  Random random(options.seed, 0);
  if (!options.json) say(options.prompt);
  std::vector<std::int32_t> drawn;
  at::Tensor scores = continuation.after(prompt);
  // A model may have been made for more words than there are.
  const std::int64_t words = std::min(scores.size(0), tokenizer->vocabulary());
  for (;;) {
    const std::int64_t token = models::draw(scores.narrow(0, 0, words), options.sampling, random);
    if (is_special(*tokenizer, token)) break;
    drawn.push_back(static_cast<std::int32_t>(token));
    if (!options.json) say(tokenizer->decode(std::span(drawn).last(1)));
    if (std::ssize(drawn) == options.tokens) break;
    scores = continuation.after(std::span(&token, 1));
  }
  if (!options.json) return say("\n");
  say(json_text({{"run", run.name()},
                 {"step", checkpoint.step},
                 {"prompt", options.prompt},
                 {"text", tokenizer->decode(drawn)},
                 {"tokens", drawn},
                 {"seed", options.seed}}));
}

}  // namespace

void add_generate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("generate", "How a model that was trained on text goes on with another");
  command->footer(kExamples);
  command->add_option("run", options->source, "Name or path of a run, or path of one of its checkpoints")->required();
  command->add_option("--prompt", options->prompt, "What the text begins with")->required();
  command->add_option("--tokens", options->tokens, "How many follow it at most")
      ->check(whole_from(1))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->sampling.temperature,
                   "Below 1 likely tokens become likelier, above 1 less so; 0: always the likeliest")
      ->capture_default_str();
  command->add_option("--top-k", options->sampling.top_k, "Only the so many likeliest tokens; 0: all")
      ->capture_default_str();
  command
      ->add_option("--top-p", options->sampling.top_p,
                   "Only the likeliest tokens that have this share of the probability together")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of chance: the same one gives the same text")->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer, "Instead of that of the recipe: bytes, bpe, bpe:FOLDER");
  options->choice.add_to(*command);
  command->add_option("--runs", options->runs, "Folder of all runs")->capture_default_str();
  command->add_flag("--json", options->json, "Print text and tokens as JSON, once all are there");
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
