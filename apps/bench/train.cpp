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
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "bench/table.h"
#include "bench/train_case.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/paths.h"
#include "lockstep/train/instructions.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep bench train --model mlp,cnn,resnet18,lstm -n 1,2 --peers torch_ddp --json out.json
  lockstep bench train --model mlp -n 1,2,4,8,16 --plot scaling.svg     weak scaling
The batch is of each rank: mlp 128, cnn 64, resnet18 8, lstm 32 windows of 64 tokens.)";

constexpr double kRunTimeout_s = 300;
constexpr const char kTunedPeer[] = "torch_ddp_tuned";

struct Options {
  std::vector<std::string> models = train_case_names();
  std::vector<int> ranks = {1, 2};
  int threads = 1;
  Extent extent;
  int warm_up = 3;
  int steps = 5;
  bool exact = false;
  std::vector<std::string> settings;
  std::vector<std::string> peers = {"torch_ddp"};
  ReportFiles files;
};

std::vector<std::string> arguments_of(const std::string& model, const Options& options) {
  return {"--model", model, "--warm-up", std::to_string(options.warm_up), "--steps", std::to_string(options.steps)};
}

std::vector<std::string> command_of_ours(const std::string& model, int ranks, const Options& options) {
  const std::string program = own_program(), threads = std::to_string(options.threads);
  std::vector<std::string> command = {program, "launch", "-n",    std::to_string(ranks), "--threads", threads,
                                      "--",    program,  "bench", "train-worker"};
  const auto arguments = arguments_of(model, options);
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (const auto& setting : options.settings) command.insert(command.end(), {"--set", setting});
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
  std::vector<std::string> command = {peers_folder() / "run-train", "--ranks", std::to_string(ranks), "--threads",
                                      std::to_string(options.threads)};
  const auto arguments = arguments_of(model, options);
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (tuned) command.emplace_back("--tuned");
  return command;
}

std::vector<Contestant> contestants(const Options& options, Report& report) {
  const auto peers = install_peers(options.peers, "install-train", report);
  std::vector<Contestant> all;
  for (const int ranks : options.ranks) {
    for (const auto& model : options.models) {
      const auto add = [&](const Participant& who, std::vector<std::string> command) {
        all.push_back({who, std::move(command), {model, ranks, options.threads}});
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

void run_once(Contestant& contestant, Report& report) {
  const std::string who = fmt::format("{} {}", label(contestant.participant), heading(contestant.workload));
  const auto result = run_contestant(contestant, kRunTimeout_s, who, report);
  if (!result) return;
  report.add(contestant.participant, contestant.workload, result->at("seconds").get<std::vector<double>>());
  Series& series = report.series(contestant.participant, contestant.workload);
  series.samples_per_call = result->at("samples").get<std::int64_t>();
  if (result->contains("exposed")) series.exposed_shares.push_back(result->at("exposed").get<double>());
}

void run(Options options) {
  options.peers = checked_peers(options.peers, {"torch_ddp", kTunedPeer});
  for (const auto& model : options.models) (void)train_case(model);
  options.files.check();
  Report report("train");
  const std::string title =
      fmt::format("time of a training step, {} thread{} a rank", options.threads, options.threads == 1 ? "" : "s");
  run_rounds(contestants(options, report), options.extent, report, options.files, title,
             [&](Contestant& contestant) { run_once(contestant, report); });
  fmt::print("{}\n{}", title, full_table(report));
}

}  // namespace

void add_bench_train(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("train", "Training steps beside PyTorch's DistributedDataParallel");
  command->footer(kExamples);
  command->add_option("--model", options->models, "Which")->delimiter(',')->capture_default_str();
  command->add_option("-n,--ranks", options->ranks, "Numbers of ranks on this host")
      ->delimiter(',')
      ->check(CLI::Range(1, comm::kMostRanksOfHost))
      ->capture_default_str();
  command->add_option("--set", options->settings, "Of our recipes: key=value, such as fuse_step=false");
  command->add_flag("--exact", options->exact, "Ours in exact mode too, with a shard for each rank");
  command->add_option("--threads", options->threads, "Of each rank")->check(CLI::Range(1, 1024))->capture_default_str();
  command->add_option("--peers", options->peers, "torch_ddp, torch_ddp_tuned (views of buckets, fused SGD) or none")
      ->delimiter(',')
      ->capture_default_str();
  options->extent.add_options(*command);
  command->add_option("--warm-up", options->warm_up, "Steps of each before the clock starts")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps of each that are timed, in a round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
