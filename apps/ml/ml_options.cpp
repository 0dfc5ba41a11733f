#include "ml/ml_options.h"

#include <filesystem>
#include <set>
#include <system_error>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "commands.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/world.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "ml/sweep_bar.h"
#include "mpirun_child.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

/// Who names a file .png expects a PNG there.
void check_endings(const MlOptions& options) {
  for (const auto& [path, ending] : options.endings) {
    const std::string own = std::filesystem::path(path).extension().string();
    if (own.empty() || own == ending) continue;
    fail(Fault::Usage, fmt::format("{} would be written as {}, and not as {}: name it so", path, ending, own));
  }
}

}  // namespace

CLI::Validator file_name() {
  const auto refusal = [](const std::string& name) {
    return std::string(name.empty() ? "the name of a file is empty" : "");
  };
  return {refusal, "FILE", "file_name"};
}

void MlOptions::add_to(CLI::App& command, bool needs_source) {
  from.add_to(command);
  if (!needs_source) command.get_option("source")->required(false);
  command.add_option("--columns", choice.columns, "Fields to take, a,b,c; by default all numbers but labels")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--exclude", choice.exclude, "Fields to leave out")->delimiter(',')->allow_extra_args(false);
  command.add_option("--weights", choice.weights, "Field that holds the weight of each row");
  command.add_option("--onehot", choice.onehot, "Fields of which each value becomes a column of 0 and 1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--ordinal", choice.ordinal, "Fields whose values are numbered in their order")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--missing", preparation.missing,
                  "Values that are missing: error, mean fills them in, drop leaves rows out")
      ->capture_default_str();
  command
      .add_option("--scale", preparation.scale,
                  "Columns, unless encoded: none, standard (variance 1) or minmax (from 0 to 1)")
      ->capture_default_str();
  command.add_option(
      "--memory", memory,
      "Rows of a rank beyond so many bytes are read anew in each pass, e.g. 4GiB; by default half of its "
      "share of the host's memory");
  command.add_option("--type", choice.type, "float32 or float64; by default that of the data")
      ->check(CLI::IsMember({"float32", "float64"}));
  command.add_option("-n,--ranks", launch.ranks, "Number of ranks; by default 1, with --hosts all their slots");
  command.add_option("--hosts", launch.hosts, "Hosts and the ranks on each, a:4,b:4; needs Open MPI");
  command.add_option("--bind", launch.bind, "Cores of each rank, as of 'lockstep launch'");
  command.add_option("--threads", launch.threads, "Threads of each rank; by default its fair share of the cores")
      ->check(whole_from(1));
  command.add_option("--timeout", launch.timeout_s, "Seconds that ranks wait for one that does not come");
  command.add_flag("--json", json, "Print the result as JSON");
}

void on_ml_ranks(const MlOptions& options, const std::vector<std::string>& words, const std::vector<std::string>& files,
                 const std::function<void(comm::Communicator& world)>& body) {
  const bool a_rank = comm::detect_world() != "self";
  if (a_rank || (options.launch.hosts.empty() && options.launch.ranks.value_or(1) == 1)) {
    if (options.launch.threads) at::set_num_threads(*options.launch.threads);
    end_with(comm::run_program(0, nullptr, [&](comm::Runtime& runtime) {
      const int ranks = runtime.world().size();
      if (options.launch.ranks.value_or(ranks) != ranks) {
        fail(Fault::Usage,
             fmt::format("-n {} in a program that was started on {}: leave -n out, or start the program alone",
                         *options.launch.ranks, counted(ranks, "rank")));
      }
      if (runtime.world().rank() == 0) {
        auto sources = options.also_read;
        sources.push_back(options.from.source);
        check_files(files, sources);
        check_endings(options);
      }
      body(runtime.world());
    }));
    return;
  }
  auto launch = options.launch;
  launch.command = {own_program()};
  launch.command.insert(launch.command.end(), words.begin(), words.end());
  launch.starter = {own_program(), kMpirunStarter, "--"};
  end_with(launch.hosts.empty() ? comm::launch(launch) : launch_on_hosts(launch));
}

void check_files(const std::vector<std::string>& files, const std::vector<std::string>& sources) {
  namespace fs = std::filesystem;
  std::set<std::string> seen;
  for (const auto& file : files) {
    if (file.empty()) continue;
    check_can_write(file);
    std::error_code ignored;
    if (fs::is_other(file, ignored)) continue;  // a device, a pipe
    for (const auto& source : sources) {
      for (const auto& one : data::files_of(source)) {
        if (fs::equivalent(file, one, ignored))
          fail(Fault::Usage, fmt::format("{} is the data itself, and would be lost: name another file", file));
      }
    }
    if (!seen.insert(fs::weakly_canonical(file, ignored).string()).second)
      fail(Fault::Usage, fmt::format("{} is named for two things: one would replace the other", file));
  }
}

void refuse_given(const std::vector<CLI::Option*>& options, const std::string& choice) {
  for (const auto* option : options) {
    if (option->count() > 0) fail(Fault::Usage, fmt::format("{} is not of {}", option->get_name(), choice));
  }
}

void write_output(const std::string& path, const ml::ModelFile& model) {
  if (!path.empty()) ml::write_model(path, model);
}

std::string size_text(const ml::Table& table) {
  return fmt::format("{} of {}", counted(table.rows(), "row"), counted(table.columns(), "column"));
}

std::int64_t memory_bytes(const MlOptions& options) {
  if (options.memory.empty()) return 0;
  const auto bytes = parse_bytes(options.memory);
  if (bytes <= 0) fail(Fault::Usage, fmt::format("--memory {}: it takes at least a byte", options.memory));
  return static_cast<std::int64_t>(bytes);
}

std::unique_ptr<ml::Table> read_source(const MlOptions& options, comm::Communicator& world) {
  return ml::read_table(world, options.from.source, options.from.open,
                        {.choice = options.choice,
                         .preparation = options.preparation,
                         .threads = at::get_num_threads(),
                         .memory_bytes = memory_bytes(options),
                         .keeps_rows = options.keeps_rows,
                         .observer = world.rank() == 0 && !options.json ? std::make_shared<SweepBar>() : nullptr});
}

}  // namespace lockstep::apps
