// `lockstep launch`: a program once per rank.
#include <memory>

#include "commands.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/comm/mpirun.h"
#include "lockstep/core/paths.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep launch -n 4 -- ./train --epochs 3
  lockstep launch -n 4 --prefix --timeout 60 -- python3 script.py
  lockstep launch --hosts a:4,b:4 -- ./train
A rank that fails or is killed ends the run at once, with its cause and exit code.
Ctrl-C goes to every rank; the second one kills.)";

void add_starter(CLI::App& app, const std::vector<std::string>& program) {
  auto* command = app.add_subcommand(kMpirunStarter, "Run a program as the rank that mpirun says");
  command->group("");  // hidden: only `launch --hosts` starts it
  command->callback([&program] { comm::become_program(program); });
}

}  // namespace

void add_launch(CLI::App& app, const std::vector<std::string>& program) {
  auto options = std::make_shared<comm::LaunchOptions>();
  auto* command =
      app.add_subcommand("launch", "Run a program on several ranks: launch -n N [options] -- program arguments");
  command->footer(kExamples);
  command->add_option("-n,--ranks", options->ranks, "Number of ranks; with --hosts by default all their slots");
  command->add_option("--hosts", options->hosts, "Hosts and the ranks on each, a:4,b:4; needs Open MPI");
  command->add_option(
      "--bind", options->bind,
      "Give each rank its own cores (core), its NUMA node (numa) or the whole cpuset (none); by default "
      "core where there are enough");
  command->add_option("--threads", options->threads, "Threads of each rank; by default its fair share of the cores");
  command->add_option("--timeout", options->timeout_s,
                      "Seconds a collective may wait for a rank before the run fails; 0: for ever");
  command->add_option("--grace", options->grace_s,
                      "Seconds that ranks have after SIGTERM or SIGHUP until they are killed; by default 10");
  command->add_option("--restarts", options->restarts, "Start a failed run again, up to this many times");
  command->add_flag("--prefix", options->prefix, "Put [rank] in front of every line of output");
  command->callback([options, &program] {
    options->command = program;
    options->starter = {own_program(), kMpirunStarter, "--"};
    end_with(comm::launch(*options));
  });
  add_starter(app, program);
}

}  // namespace lockstep::apps
