// `lockstep bench train`: steps of ours, of PyTorch's DistributedDataParallel, and of replicas
// that do not communicate, in the same run.
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/benches.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/rounds.h"
#include "bench/step_run.h"
#include "bench/table.h"
#include "bench/train_case.h"
#include "lockstep/train/instructions.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep bench train --model mlp,cnn,resnet18,lstm -n 1,2 --peers torch_ddp --json out.json
  lockstep bench train --model mlp -n 1,2,4,8,16 --plot scaling.svg     weak scaling
The batch is of each rank: mlp 128, cnn 64, resnet18 8, lstm 32 windows of 64 tokens.)";

constexpr const char kTunedPeer[] = "torch_ddp_tuned";

struct Options {
  std::vector<std::string> models = train_case_names();
  bool exact = false;
  StepOptions steps = {.ranks = {1, 2}};
  std::vector<std::string> peers = {"torch_ddp"};
};

std::vector<std::string> command_of_ours(const std::string& model, int ranks, const Options& options) {
  auto command = step_worker_command("train-worker", ranks, options.steps);
  command.insert(command.end(), {"--model", model});
  return command;
}

/// The same in exact mode, with as many shards as ranks, or the next power of two.
std::vector<std::string> command_of_exact(const std::string& model, int ranks, const Options& options) {
  std::vector<std::string> command = {"/usr/bin/env"};
  for (const auto& [name, value] : train::environment_of(train::pinned_instructions("best"))) {
    command.push_back(fmt::format("{}={}", name, value));
  }
  const auto shards = std::bit_ceil(static_cast<unsigned>(ranks));
  for (const auto& word : command_of_ours(model, ranks, options)) command.push_back(word);
  command.insert(command.end(), {"--set", "exact=true", "--set", fmt::format("shards={}", shards)});
  return command;
}

std::vector<std::string> command_of_peer(const std::string& model, int ranks, const Options& options, bool tuned) {
  auto command = step_peer_command("run-train", ranks, options.steps);
  command.insert(command.end(), {"--model", model});
  if (tuned) command.emplace_back("--tuned");
  return command;
}

std::vector<Contestant> contestants(const Options& options, Report& report) {
  const auto peers = install_peers(options.peers, "install-train", report);
  std::vector<Contestant> all;
  for (const int ranks : options.steps.ranks) {
    for (const auto& model : options.models) {
      const auto add = [&](const Participant& who, std::vector<std::string> command) {
        all.push_back({who, std::move(command), {model, ranks, options.steps.threads}});
      };
      add({kOurs, ""}, command_of_ours(model, ranks, options));
      if (options.exact) add({kOurs, "exact"}, command_of_exact(model, ranks, options));
      for (const auto& peer : peers) add({peer, ""}, command_of_peer(model, ranks, options, peer == kTunedPeer));
      if (ranks == 1) continue;
      auto alone = command_of_ours(model, ranks, options);
      alone.emplace_back("--alone");
      add({kCeiling, ""}, alone);
    }
  }
  return all;
}

void run(Options options) {
  options.peers = checked_peers(options.peers, {"torch_ddp", kTunedPeer});
  for (const auto& model : options.models) (void)train_case(model);
  const StepOptions& steps = options.steps;
  steps.files.check();
  Report report("train");
  run_rounds(contestants(options, report), steps.extent, report, steps.files, steps.title(),
             [&](Contestant& contestant) { run_steps(contestant, report); });
  fmt::print("{}\n{}", steps.title(), full_table(report));
}

}  // namespace

void add_bench_train(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("train", "Training steps beside PyTorch's DistributedDataParallel");
  command->footer(kExamples);
  command->add_option("--model", options->models, "Which")->delimiter(',')->capture_default_str();
  command->add_flag("--exact", options->exact, "Ours in exact mode too, with a shard for each rank");
  command->add_option("--peers", options->peers, "torch_ddp, torch_ddp_tuned (views of buckets, fused SGD) or none")
      ->delimiter(',')
      ->capture_default_str();
  options->steps.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
