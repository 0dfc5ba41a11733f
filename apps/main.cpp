// The program `lockstep`: reads the command line and turns what goes wrong into one
// line and an exit code.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commands.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"
#include "lockstep/core/version.h"

namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep doctor                         what this machine has, and what it lacks
  lockstep launch -n 4 -- ./program       run a program on 4 ranks of this host
  lockstep launch --hosts a:4,b:4 -- ./program
                                          the same on two hosts, through mpirun
  lockstep data info train.tar            what a data set holds
  lockstep pack images/ train.tar         a data set in another format
  lockstep bench allreduce -n 2           all-reduce beside MPI libraries and gloo
  lockstep train recipes/mnist_cnn.toml -n 4
                                          a network, from a recipe, on 4 ranks
  lockstep generate gpt-1 --prompt "Call me"
                                          what a trained model of text says next
  lockstep kmeans data.npy -k 10 -n 4     clusters of rows
  lockstep tour -n 4                      what it does, in half a minute

Exit codes: 0 done, 1 failed, 2 wrong use, 75 saved and to be started again,
128 + signal when a rank was killed.)";

/// "lockstep bench allreduce": the command as far as it was understood.
std::string understood(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return app.get_name() + (chosen.empty() ? "" : " " + understood(*chosen.back()));
}

const CLI::App& chosen_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_command(*chosen.back());
}

/// Of words that no option takes: the one to blame, and what was meant perhaps.
std::string unexpected(const CLI::App& app) {
  const CLI::App& command = chosen_command(app);
  const auto words = app.remaining(true);
  const auto option = std::find_if(words.begin(), words.end(), [](const auto& word) { return word.starts_with('-'); });
  if (option == words.end()) {
    const bool program = command.get_name() == "launch";
    return fmt::format("unexpected argument '{}'{}", words.front(),
                       program ? "; the program and its arguments come after '--'" : "");
  }
  std::vector<std::string> names;
  for (const auto* known : command.get_options()) {
    for (const auto& name : known->get_lnames()) names.push_back("--" + name);
  }
  return fmt::format("unknown option '{}'{}", *option, lockstep::proposal(*option, names));
}

int complain(const CLI::App& app, const CLI::ParseError& error) {
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  std::string message = extra ? unexpected(app) : error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  const bool remedied = message.ends_with('?');  // did you mean ...?
  fmt::print(stderr, "lockstep: {}{}\n", message, remedied ? "" : fmt::format("; see '{} --help'", understood(app)));
  return lockstep::exit_code::kUsage;
}

/// CLI11 would only say that a subcommand is required.
void check_command(const CLI::App& app, std::span<const std::string> arguments) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty() || arguments.empty()) return;
  const std::string& word = arguments.front();
  if (word.starts_with('-')) {
    if (app.get_option_no_throw(word) != nullptr) return;
    lockstep::fail(lockstep::Fault::Usage, fmt::format("unknown option '{}'; see '{} --help'", word, understood(app)));
  }
  std::vector<std::string> shown;
  for (const auto* command : commands) {
    if (command->get_name() == word) return check_command(*command, arguments.subspan(1));
    if (!command->get_group().empty()) shown.push_back(command->get_name());
  }
  lockstep::fail(lockstep::Fault::Usage, fmt::format("unknown command '{}'{}", word, lockstep::proposal(word, shown)));
}

int run(std::vector<std::string> arguments) {
  using namespace lockstep::apps;
  // What follows "--" belongs to another program: it is passed on as it is, unread.
  std::vector<std::string> program;
  if (!arguments.empty() && (arguments.front() == "launch" || arguments.front() == kMpirunStarter)) {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    if (dashes != arguments.end()) {
      program.assign(dashes + 1, arguments.end());
      arguments.erase(dashes, arguments.end());
    }
  }
  CLI::App app("Distributed machine and deep learning: the same answer on any number of ranks.", "lockstep");
  app.set_version_flag("--version", fmt::format("lockstep {} (torch {})", lockstep::kVersion, lockstep::kTorchVersion));
  app.require_subcommand(1);
  app.footer(kExamples);
  add_bench(app);
  add_covariance(app, arguments);
  add_data(app);
  add_dbscan(app, arguments);
  add_doctor(app);
  add_elasticnet(app, arguments);
  add_generate(app);
  add_kmeans(app, arguments);
  add_knn(app, arguments);
  add_lasso(app, arguments);
  add_launch(app, program);
  add_linreg(app, arguments);
  add_list(app);
  add_logreg(app, arguments);
  add_naivebayes(app, arguments);
  add_pack(app);
  add_pca(app, arguments);
  add_pipeline(app);
  add_predict(app);
  add_runs(app);
  add_stats(app, arguments);
  add_svd(app, arguments);
  add_tour(app);
  add_tour_rank(app);
  add_train(app);
  add_train_rank(app);
  check_command(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    const bool asked_for = error.get_exit_code() == 0;  // --help, --version
    const bool silent = error.get_name() == "RuntimeError";
    return asked_for || silent ? app.exit(error) : complain(app, error);
  }
  return lockstep::exit_code::kDone;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run({argv + std::min(argc, 1), argv + argc});
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      lockstep::fail_errno("cannot write standard output", errno);
    return code;
  } catch (...) {
    const lockstep::Error error = lockstep::current_error();
    fmt::print(stderr, "lockstep: {}\n", error.what());
    return error.exit_code();
  }
}
