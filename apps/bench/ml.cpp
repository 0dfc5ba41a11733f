// `lockstep bench ml`: fits of ours, of scikit-learn, scikit-learn-intelex and daal4py in the same run.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/ml_agreement.h"
#include "bench/ml_case.h"
#include "bench/ml_data.h"
#include "bench/peers.h"
#include "bench/report.h"
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "bench/table.h"
#include "bench/worker.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep bench ml --peers sklearn,sklearnex,daal4py --json out.json
  lockstep bench ml --cases kmeans --rows 10000000 --threads 16 -n 1,2,4,8,16 --peers sklearn --plot strong.svg
  lockstep bench ml --cases kmeans --rows 1000000 --weak --threads 0 -n 1,2,4,8,16 --peers none --plot weak.svg
Compared is what used as many cores, by threads of one process or by ranks of one thread.)";

constexpr double kRunTimeout_s = 600;
/// The variant of who uses cores by ranks.
constexpr const char kRanks[] = "ranks";
constexpr const char kTitle[] = "time of a fit";

struct Options {
  std::vector<std::string> cases = ml_cases_with_peers();
  std::int64_t rows = 0;  // 0: as many as the case says
  bool weak = false;
  std::vector<int> threads = {1, 2};
  std::vector<int> ranks = {2};
  int fits = 3;
  Extent extent = {.rounds = 5};
  std::vector<std::string> peers = {"sklearn", "sklearnex", "daal4py"};
  ReportFiles files;

  std::int64_t rows_of(const Workload& workload) const {
    const std::int64_t base = rows > 0 ? rows : ml_case(workload.name).rows;
    return weak ? base * workload.cores() : base;
  }
};

/// How cores are used: by one process with threads, or by ranks.
struct Layout {
  std::string variant;
  int ranks = 1;
  int threads = 1;
};

/// From few cores to many.
std::vector<Layout> layouts(const Options& options) {
  std::vector<Layout> all;
  for (const int threads : options.threads) {
    if (threads > 0) all.push_back({"", 1, threads});
  }
  for (const int ranks : options.ranks) {
    if (ranks > 0) all.push_back({kRanks, ranks, 1});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.ranks * a.threads < b.ranks * b.threads; });
  return all;
}

/// The data of all cases: those with the same matrix share its files.
class AllData {
 public:
  AllData(const std::vector<Contestant>& contestants, const Options& options) {
    for (const auto& contestant : contestants) {
      const auto& data = ml_case(contestant.workload.name).data;
      auto& most = rows_of(data);
      most = std::max(most, options.rows_of(contestant.workload));
    }
    for (auto& one : all_) one.files.emplace(one.data, one.rows);
  }

  /// As options of a worker, ours or a peer's.
  std::vector<std::string> arguments(const MlCase& one) const {
    const auto& files =
        std::find_if(all_.begin(), all_.end(), [&](const auto& made) { return made.data == one.data; })->files;
    std::vector<std::string> words = {"--x", files->x()};
    if (one.takes_targets) words.insert(words.end(), {"--targets", files->targets()});
    return words;
  }

 private:
  struct Made {
    MlData data;
    std::int64_t rows = 0;
    std::optional<MlFiles> files = {};
  };
  std::int64_t& rows_of(const MlData& data) {
    for (auto& made : all_) {
      if (made.data == data) return made.rows;
    }
    return all_.emplace_back(Made{data}).rows;
  }

  std::vector<Made> all_;
};

std::vector<std::string> command_of_ours(const std::string& name, const Layout& layout) {
  auto command = launched("ml-worker", layout.ranks, layout.threads);
  command.push_back(name);
  return command;
}

std::vector<std::string> command_of_peer(const MlPeer& peer, const MlCase& one, const Layout& layout) {
  std::vector<std::string> command = {
      peers_folder() / "run-ml",     peer.name, one.algorithm, "--ranks", std::to_string(layout.ranks), "--threads",
      std::to_string(layout.threads)};
  for (const auto& arguments : {one.arguments, peer.arguments}) {
    command.insert(command.end(), arguments.begin(), arguments.end());
  }
  return command;
}

/// Their data is to be added.
std::vector<Contestant> contestants(const Options& options, Report& report) {
  const auto installed = install_peers(options.peers, "install-ml", report);
  std::vector<Contestant> all;
  for (const auto& name : options.cases) {
    const MlCase& one = ml_case(name);
    for (const auto& layout : layouts(options)) {
      const Workload workload{name, layout.ranks, layout.threads};
      all.push_back({{kOurs, layout.variant}, command_of_ours(name, layout), workload});
      for (const auto& peer : one.peers) {
        if (std::find(installed.begin(), installed.end(), peer.name) == installed.end()) continue;
        const bool by_ranks = layout.variant == kRanks;
        if (by_ranks && !peer.over_ranks) continue;
        all.push_back({{peer.name, by_ranks ? kRanks : peer.variant}, command_of_peer(peer, one, layout), workload});
      }
    }
  }
  return all;
}

void add_data(std::vector<Contestant>& contestants, const AllData& data, const Options& options) {
  for (auto& contestant : contestants) {
    const auto files = data.arguments(ml_case(contestant.workload.name));
    auto& command = contestant.command;
    command.insert(command.end(), files.begin(), files.end());
    command.insert(command.end(), {"--rows", std::to_string(options.rows_of(contestant.workload)), "--fits",
                                   std::to_string(options.fits)});
  }
}

/// Programs that are started while it lives run on so many cores, ours and the peers' alike. The last ones: what the
/// system itself does is mostly done on the first.
class OnCores {
 public:
  explicit OnCores(int count) : before_(usable_cpus()) {
    const auto cores = usable_cores();
    const auto wanted = static_cast<std::size_t>(count);
    if (wanted >= cores.size()) return;
    std::vector<int> cpus;
    for (std::size_t core = cores.size() - wanted; core < cores.size(); ++core) {
      cpus.insert(cpus.end(), cores[core].cpus.begin(), cores[core].cpus.end());
    }
    bind_to(cpus);
  }
  ~OnCores() { bind_to(before_); }
  OnCores(const OnCores&) = delete;
  OnCores& operator=(const OnCores&) = delete;

 private:
  std::vector<int> before_;
};

/// What ours read, and how long it takes to read as much: the ceiling.
void add_reading(const nlohmann::json& result, std::int64_t bytes, const Contestant& contestant, Report& report) {
  const auto passes = result.at("passes").get<double>();
  auto read_seconds = result.at("read_seconds").get<std::vector<double>>();
  for (double& seconds : read_seconds) seconds *= passes;
  const Participant ceiling{kCeiling, ""};
  report.add(ceiling, contestant.workload, read_seconds);
  for (const auto& who : {contestant.participant, ceiling}) {
    report.series(who, contestant.workload).bytes_per_call =
        static_cast<std::int64_t>(static_cast<double>(bytes) * passes);
  }
}

void run_once(Contestant& contestant, const Options& options, MlAgreement& agreement, Report& report) {
  const Workload& workload = contestant.workload;
  const std::string who = fmt::format("{} {}", label(contestant.participant), heading(workload));
  const auto result = [&] {
    const OnCores cores(workload.cores());
    return run_contestant(contestant, kRunTimeout_s, who, report);
  }();
  if (!result) return;
  const MlCase& one = ml_case(workload.name);
  const std::int64_t rows = options.rows_of(workload);
  const auto values = result->at("values").get<std::map<std::string, double>>();
  agreement.check(one, rows, contestant.participant, values);
  report.add(contestant.participant, workload, result->at("seconds").get<std::vector<double>>());
  report.series(contestant.participant, workload).values = values;
  if (!is_peer(contestant.participant)) add_reading(*result, one.bytes(rows), contestant, report);
}

void check_memory(const Options& options) {
  for (const auto& name : options.cases) {
    for (const auto& layout : layouts(options)) {
      const std::int64_t rows = options.rows_of({name, layout.ranks, layout.threads});
      const std::int64_t bytes = ml_case(name).bytes(rows);
      // The file stays in memory too.
      if (2 * bytes <= machine().memory_bytes) continue;
      fail(Fault::Usage, fmt::format("{} of {} rows is {}, too much for the {} of this machine; use fewer --rows", name,
                                     rows, format_bytes(bytes), format_bytes(machine().memory_bytes)));
    }
  }
}

void run(Options options) {
  options.peers = checked_peers(options.peers, {"sklearn", "sklearnex", "daal4py"});
  for (const auto& name : options.cases) (void)ml_case(name);
  if (layouts(options).empty()) fail(Fault::Usage, "neither threads nor ranks: name some by --threads or -n");
  check_memory(options);
  options.files.check();
  Report report("ml");
  auto all = contestants(options, report);
  const AllData data(all, options);
  add_data(all, data, options);
  MlAgreement agreement;
  run_rounds(std::move(all), options.extent, report, options.files, kTitle,
             [&](Contestant& contestant) { run_once(contestant, options, agreement, report); });
  fmt::print("{}\n{}", kTitle, full_table(report));
}

std::string without_peers() {
  const auto usual = ml_cases_with_peers();
  std::vector<std::string> others;
  for (const auto& name : ml_case_names()) {
    if (std::find(usual.begin(), usual.end(), name) == usual.end()) others.push_back(name);
  }
  return join(others, ", ");
}

}  // namespace

void add_bench_ml(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* command =
      bench.add_subcommand("ml", "Classical algorithms beside scikit-learn, scikit-learn-intelex and daal4py");
  command->footer(kExamples);
  command->add_option("--cases", options->cases, "Which; besides " + without_peers())
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--rows", options->rows, "Of each case, instead of its own number")
      ->check(CLI::Range(std::int64_t{100}, std::int64_t{1} << 40));
  command->add_flag("--weak", options->weak, "So many rows for each core, not in all");
  command->add_option("--threads", options->threads, "Numbers of threads of one process; 0: none")
      ->delimiter(',')
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("-n,--ranks", options->ranks, "Numbers of ranks of one thread; 0: none")
      ->delimiter(',')
      ->check(CLI::Range(0, comm::kMostRanksOfHost))
      ->capture_default_str();
  command->add_option("--fits", options->fits, "Fits of each that are timed, in a round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--peers", options->peers, "sklearn, sklearnex, daal4py or none")
      ->delimiter(',')
      ->capture_default_str();
  options->extent.add_options(*command);
  options->files.add_options(*command);
  command->callback([options] { run(*options); });
}

}  // namespace lockstep::apps
