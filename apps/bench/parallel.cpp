// `lockstep bench parallel`: steps of a GPT that is cut over ranks, by our strategies and by PyTorch's, in the same
// run.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bench/agreement.h"
#include "bench/benches.h"
#include "bench/nameless_file.h"
#include "bench/parallel_case.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/rounds.h"
#include "bench/step_run.h"
#include "bench/table.h"
#include "lockstep/core/error.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep bench parallel --json out.json --markdown out.md
  lockstep bench parallel --cases tensor,pipe --micro-batches 4 --peers none
The batch is of all ranks together; a pipeline's is cut into micro-batches.)";

constexpr const char kPeer[] = "torch";

struct Options {
  std::vector<std::string> cases = parallel_case_names();
  ParallelGpt gpt;
  int micro_batches = 8;
  StepOptions steps = {.ranks = {2}};
  std::vector<std::string> peers = {kPeer};
};

void check(const Options& options) {
  for (const int ranks : options.steps.ranks) {
    if (ranks < 2) fail(Fault::Usage, "nothing is cut over 1 rank: -n is from 2 on");
    if (options.gpt.batch % ranks != 0) {
      fail(Fault::Usage, fmt::format("--batch {} is no multiple of {} ranks", options.gpt.batch, ranks));
    }
  }
  if (options.gpt.batch % options.micro_batches != 0) {
    fail(Fault::Usage,
         fmt::format("--batch {} is no multiple of {} micro-batches", options.gpt.batch, options.micro_batches));
  }
}

std::vector<std::string> command_of_ours(const ParallelCase& one, int ranks, const Options& options) {
  StepOptions steps = options.steps;
  const auto cut = one.settings(ranks, options.micro_batches);
  steps.settings.insert(steps.settings.begin(), cut.begin(), cut.end());
  auto command = step_worker_command("parallel-worker", ranks, steps);
  const auto shape = options.gpt.arguments();
  command.insert(command.end(), shape.begin(), shape.end());
  return command;
}

std::vector<std::string> command_of_peer(const ParallelCase& one, int ranks, const Options& options,
                                         const std::string& start) {
  auto command = step_peer_command("run-parallel", ranks, options.steps);
  command.insert(command.end(), {"--case", one.name, "--heads", std::to_string(options.gpt.heads), "--start", start});
  if (!one.schedule.empty()) {
    command.insert(command.end(), {"--schedule", one.schedule, "--micro-batches", std::to_string(options.micro_batches),
                                   "--cuts", fmt::format("{}", fmt::join(options.gpt.cuts(ranks), ","))});
  }
  return command;
}

/// `start` has files with the first weights, by whether the head is tied.
std::vector<Contestant> contestants(const Options& options, std::map<bool, FileDescriptor>& start, Report& report) {
  const auto peers = install_peers(options.peers, "install-train", report);
  std::vector<Contestant> all;
  for (const int ranks : options.steps.ranks) {
    for (const auto& name : options.cases) {
      for (const auto& one : parallel_cases(name)) {
        const Workload workload{one.name, ranks, options.steps.threads};
        all.push_back({.participant = {kOurs, one.schedule},
                       .command = command_of_ours(one, ranks, options),
                       .workload = workload,
                       .may_fail = true});
        for (const auto& peer : peers) {
          if (!start.contains(one.tied())) start.emplace(one.tied(), options.gpt.start(one.tied()));
          all.push_back({.participant = {peer, one.schedule},
                         .command = command_of_peer(one, ranks, options, path_of(start.at(one.tied()))),
                         .workload = workload});
        }
      }
    }
  }
  return all;
}

/// Whoever trains the same from the same weights on has the same losses, and they fall.
void check_losses(const Contestant& contestant, const std::map<std::string, double>& values, Agreement& agreement) {
  const std::string work = heading(contestant.workload);
  if (!(values.at("last_loss") < values.at("first_loss"))) {
    fail(Fault::Internal, fmt::format("{}: {} learns nothing, its loss goes from {} to {}; its time says nothing", work,
                                      label(contestant.participant), values.at("first_loss"), values.at("last_loss")));
  }
  constexpr double kOfFloat32 = 1e-3;  // sums in another order, through some steps
  agreement.check(work, contestant.participant, values, {kOfFloat32, kOfFloat32});
}

void run_once(Contestant& contestant, Agreement& agreement, Report& report) {
  const auto result = run_steps(contestant, report);
  if (!result) return;
  const auto losses = result->at("losses").get<std::vector<double>>();
  const std::map<std::string, double> values = {{"first_loss", losses.front()}, {"last_loss", losses.back()}};
  check_losses(contestant, values, agreement);
  report.series(contestant.participant, contestant.workload).values = values;
}

void run(Options options) {
  options.peers = checked_peers(options.peers, {kPeer});
  for (const auto& name : options.cases) (void)parallel_cases(name);
  check(options);
  const StepOptions& steps = options.steps;
  steps.files.check();
  Report report("parallel");
  std::map<bool, FileDescriptor> start;
  Agreement agreement;
  run_rounds(contestants(options, start, report), steps.extent, report, steps.files, steps.title(),
             [&](Contestant& contestant) { run_once(contestant, agreement, report); });
  fmt::print("{}\n{}", steps.title(), full_table(report));
}

}  // namespace

void add_bench_parallel(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command = bench.add_subcommand("parallel", "Steps of a model cut over ranks, beside PyTorch's strategies");
  command->footer(kExamples);
  command->add_option("--cases", options->cases, "Which")->delimiter(',')->capture_default_str();
  command->add_option("--peers", options->peers, "torch or none")->delimiter(',')->capture_default_str();
  options->gpt.add_options(*command);
  command->add_option("--micro-batches", options->micro_batches, "Of a pipeline")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  options->steps.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
