// The program `lockstep` as its users run it: what its commands leave, and how they
// refuse wrong use. `launch` has tests of its own in tests/launcher.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/comm/tuning.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/testing.h"
#include "lockstep/core/text.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Where a run measures: many processes, on a machine that may be busy.
constexpr double kMeasuring_s = 240;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), LOCKSTEP_PROGRAM);
  return arguments;
}

std::vector<std::string> with(const std::string& variable, std::vector<std::string> command) {
  command.insert(command.begin(), {"env", variable});
  return command;
}

/// What is no JSON becomes a failure and `null`.
json parsed(const std::string& text) {
  auto value = json::parse(text, nullptr, false);
  EXPECT_FALSE(value.is_discarded()) << text;
  return value.is_discarded() ? json() : value;
}

void expect_keys(const json& object, const std::vector<std::string>& keys) {
  for (const auto& key : keys) EXPECT_TRUE(object.contains(key)) << key << " in " << object;
}

// ---- what there is ---------------------------------------------------------------------------

TEST(Program, ListsItsBackEnds) {
  Background run(program({"list", "--json"}));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  std::set<std::string> names;
  for (const auto& entry : parsed(run.output())) {
    expect_keys(entry, {"kind", "name", "description"});
    if (entry.value("kind", "") == "back-end") names.insert(entry.value("name", ""));
  }
  EXPECT_TRUE(names.contains("self") && names.contains("shm")) << run.output();
  EXPECT_EQ(names.contains("mpi"), LOCKSTEP_HAS_MPI) << run.output();
  EXPECT_EQ(names.contains("hier"), LOCKSTEP_HAS_MPI) << run.output();
}

TEST(Program, DescribesTheMachine) {
  Background run(program({"doctor", "--json"}));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  const auto found = parsed(run.output());
  expect_keys(found, {"lockstep", "torch", "machine", "findings"});
  expect_keys(found["machine"], {"host", "kernel", "cpu_model", "packages", "cores", "cpus", "numa_nodes",
                                 "usable_cpus", "cpu_quota", "l1_bytes", "l2_bytes", "l3_bytes", "memory_bytes"});
  EXPECT_EQ(found["machine"]["usable_cpus"], json(usable_cpus()));
  std::set<std::string> sections;
  for (const auto& finding : found["findings"]) {
    expect_keys(finding, {"section", "item", "state", "text"});
    const auto state = finding.value("state", "");
    EXPECT_TRUE(state == "good" || state == "poor" || state == "absent") << finding;
    sections.insert(finding.value("section", ""));
    if (finding.value("item", "") == "plug-in") {
      EXPECT_EQ(state, LOCKSTEP_HAS_MPI ? "good" : "absent") << finding;
    }
  }
  for (const char* section : {"host", "memory", "torch", "MPI", "Slurm", "CUDA"}) {
    EXPECT_TRUE(sections.contains(section)) << section;
  }
}

// ---- measurements ----------------------------------------------------------------------------

TEST(Program, MeasuresAllReduce) {
  const test::TemporaryFolder folder;
  Background run(
      program({"bench", "allreduce", "-n", "2", "--rounds", "1", "--sizes", "1KiB,64KiB", "--peers", "none", "--json",
               folder / "report.json", "--plot", folder / "report.svg", "--markdown", folder / "report.md"}));
  ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();

  const auto report = parsed(contents(folder / "report.json"));
  expect_keys(report, {"bench", "machine", "rows", "ratios", "skipped"});
  EXPECT_EQ(report["bench"], "allreduce");
  EXPECT_EQ(report["ratios"], json::array()) << "there is no peer";
  EXPECT_EQ(report["skipped"], json::array()) << "no peer was asked for";
  std::set<std::string> rows;
  for (const auto& row : report["rows"]) {
    expect_keys(row, {"who", "case", "ranks", "threads", "bytes", "median_s", "p95_s", "reps"});
    EXPECT_EQ(row["case"], "allreduce");
    EXPECT_EQ(row["ranks"], 2);
    EXPECT_GT(row["reps"], 0);
    EXPECT_GT(row["median_s"], 0.0);
    EXPECT_GE(row["p95_s"], row["median_s"]);
    rows.insert(join({row["who"], row.value("variant", "-"), row["bytes"].dump()}, " "));
  }
  EXPECT_EQ(rows, (std::set<std::string>{"lockstep in_place 1024", "lockstep in_place 65536", "lockstep staged 1024",
                                         "lockstep staged 65536", "ceiling - 1024", "ceiling - 65536"}));

  const std::string plot = contents(folder / "report.svg");
  EXPECT_TRUE(plot.starts_with("<svg") && has(plot, "</svg>")) << plot;
  const std::string table = contents(folder / "report.md");
  EXPECT_TRUE(table.starts_with("| median | 1 KiB | 64 KiB |\n| --- | --- | --- |\n")) << table;
  for (const char* who : {"lockstep in_place", "lockstep staged", "ceiling"}) {
    EXPECT_TRUE(has(run.output(), who)) << who << " in " << run.output();
    EXPECT_TRUE(has(plot, who)) << who << " in " << plot;
    EXPECT_TRUE(has(table, std::string("\n| ") + who + " | ")) << who << " in " << table;
  }
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Program, MeasuresClassicalAlgorithms) {
  const test::TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  Background run(
      program({"bench", "ml", "--rows", "20000", "--rounds", "1", "--fits", "2", "--peers", "none", "--json",
               folder / "report.json", "--plot", folder / "report.svg", "--markdown", folder / "report.md"}));
  ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();
  unsetenv("XDG_CACHE_HOME");
  EXPECT_TRUE(fs::is_empty(folder / "cache/lockstep")) << "no data is left behind";

  const auto report = parsed(contents(folder / "report.json"));
  EXPECT_EQ(report["bench"], "ml");
  EXPECT_EQ(report["skipped"], json::array());
  std::set<std::string> rows, cases;
  for (const auto& row : report["rows"]) {
    expect_keys(row, {"who", "case", "ranks", "threads", "median_s", "reps", "bytes_per_s"});
    EXPECT_GT(row["median_s"], 0.0);
    EXPECT_GT(row["bytes_per_s"], 0.0);
    cases.insert(row["case"]);
    if (row["case"] != "kmeans") continue;
    rows.insert(join({row["who"], row.value("variant", "-"), row["ranks"].dump(), row["threads"].dump()}, " "));
    if (row["who"] == "lockstep") {
      EXPECT_EQ(row["values"]["iterations"], 20) << row;
      EXPECT_TRUE(row.contains("over_ceiling")) << row;
      EXPECT_EQ(row["reps"], 2);
    }
  }
  EXPECT_EQ(rows, (std::set<std::string>{"lockstep - 1 1", "lockstep - 1 2", "lockstep ranks 2 1", "ceiling - 1 1",
                                         "ceiling - 1 2"}));
  for (const char* name : {"kmeans", "kmeans_f32", "kmeans_wide", "linreg"}) EXPECT_TRUE(cases.contains(name)) << name;
  EXPECT_TRUE(has(contents(folder / "report.svg"), ">cores<"));
  EXPECT_TRUE(has(contents(folder / "report.md"), "kmeans_wide x 2"));
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Program, MeasuresWeakScaling) {
  const test::TemporaryFolder folder;
  Background run(program({"bench", "ml", "--cases", "linreg", "--rows", "20000", "--weak", "--threads", "0", "-n",
                          "1,2", "--rounds", "1", "--fits", "1", "--peers", "none", "--json", folder / "report.json"}));
  ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();
  std::map<int, double> coefficients, bytes;
  const auto report = parsed(contents(folder / "report.json"));
  for (const auto& row : report["rows"]) {
    if (row["who"] != "lockstep") continue;
    coefficients[row["ranks"]] = row["values"]["coef"];
    bytes[row["ranks"]] = row["bytes_per_s"].get<double>() * row["median_s"].get<double>();
  }
  EXPECT_EQ(coefficients.size(), 2U);
  EXPECT_NE(coefficients[1], coefficients[2]) << "two ranks have twice the rows";
  EXPECT_NEAR(bytes[2] / bytes[1], 2, 1e-6);
}

/// `bench parallel` of a model that is soon trained, without peers.
std::vector<std::string> small_parallel(const std::vector<std::string>& options) {
  auto words = program({"bench",        "parallel", "--width", "16", "--layers",        "2",   "--context", "8",
                        "--vocabulary", "32",       "--batch", "4",  "--micro-batches", "2",   "--rounds",  "1",
                        "--warm-up",    "2",        "--steps", "3",  "--peers",         "none"});
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

TEST(Program, MeasuresModelsThatAreCut) {
  const test::TemporaryFolder folder;
  Background run(small_parallel({"--cases", "tensor,pipe", "--heads", "2", "--json", folder / "report.json",
                                 "--markdown", folder / "report.md"}));
  ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();

  const auto report = parsed(contents(folder / "report.json"));
  expect_keys(report, {"bench", "machine", "rows", "ratios", "skipped"});
  EXPECT_EQ(report["bench"], "parallel");
  EXPECT_EQ(report["ratios"], json::array()) << "there is no peer";
  EXPECT_EQ(report["skipped"], json::array());
  std::set<std::string> rows;
  for (const auto& row : report["rows"]) {
    expect_keys(row, {"who", "case", "ranks", "threads", "median_s", "p95_s", "reps", "samples_per_s", "peak_pss_bytes",
                      "exposed_share", "values"});
    EXPECT_EQ(row["ranks"], 2);
    EXPECT_EQ(row["threads"], 1);
    EXPECT_EQ(row["reps"], 3);
    EXPECT_NEAR(row["samples_per_s"].get<double>() * row["median_s"].get<double>(), 4, 1e-6);
    EXPECT_GT(row["peak_pss_bytes"], 0);
    EXPECT_NEAR(row["values"]["first_loss"], std::log(32), 0.5) << "nothing is known at first";
    EXPECT_LT(row["values"]["last_loss"], row["values"]["first_loss"]);
    rows.insert(join({row["who"], row["case"], row.value("variant", "-")}, " "));
  }
  EXPECT_EQ(rows, (std::set<std::string>{"lockstep tensor -", "lockstep pipe 1f1b", "lockstep pipe gpipe"}));
  EXPECT_TRUE(has(contents(folder / "report.md"), "| median | tensor x 2 | pipe x 2 |\n"));
  EXPECT_TRUE(run.all_gone(2));
}

TEST(Program, SkipsWhatCannotBeCut) {
  const test::TemporaryFolder folder;
  Background run(small_parallel({"--cases", "tensor,pipe", "--heads", "1", "--json", folder / "report.json"}));
  ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();
  const auto report = parsed(contents(folder / "report.json"));
  ASSERT_EQ(report["skipped"].size(), 1U) << report;
  EXPECT_EQ(report["skipped"][0]["who"], "lockstep tensor x 2");
  EXPECT_TRUE(has(report["skipped"][0]["reason"], "parallel.tensor = 2 does not divide the 1 heads")) << report;
  ASSERT_EQ(report["rows"].size(), 2U) << report;
  for (const auto& row : report["rows"]) EXPECT_EQ(row["case"], "pipe");
}

TEST(Program, CalibratesForLaterRuns) {
  const test::TemporaryFolder folder;
  unsetenv("LOCKSTEP_TUNING");
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const std::vector<std::string> later = program({"launch", "-n", "2", "--", LOCKSTEP_HELLO});
  {
    Background run(program({"bench", "calibrate", "-n", "2", "--rounds", "1"}));
    ASSERT_EQ(run.wait(kMeasuring_s), 0) << run.errors();
    ASSERT_TRUE(has(run.output(), "kept in " + (folder / "cache/").string())) << run.output();
    const std::string kept = run.output().substr(run.output().find("kept in ") + 8);
    const std::string path = kept.substr(0, kept.find('\n'));
    const auto table = parsed(contents(path));
    expect_keys(table, {"doubling_bytes", "two_hop_bytes", "inline_bytes", "piece_bytes", "window_bytes"});
    const auto cached = comm::cached_tuning(2);
    ASSERT_TRUE(cached);
    EXPECT_EQ(parsed(cached->json()), table);
    EXPECT_EQ(Background(later).wait(), 0);
    // Nothing shows which table a run uses, but it must complain of this one.
    std::ofstream(path) << "torn";
  }
  Background run(later);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.errors(), "lockstep: warning: the tuning table is not JSON; run 'lockstep bench calibrate' again\n");
  unsetenv("XDG_CACHE_HOME");
}

// ---- traces ----------------------------------------------------------------------------------

/// The trace holds a span of that name from each of `ranks` ranks, and nothing of others.
void expect_trace(const std::string& path, int ranks, const std::string& span) {
  const auto trace = parsed(contents(path));
  ASSERT_TRUE(trace.contains("traceEvents"));
  std::map<int, int> spans;
  for (const auto& event : trace["traceEvents"]) {
    expect_keys(event, {"ph", "pid", "name"});
    const int rank = event.value("pid", -1);
    EXPECT_TRUE(0 <= rank && rank < ranks) << event;
    if (event.value("ph", "") != "X") continue;
    expect_keys(event, {"ts", "dur", "tid"});
    if (event.value("name", "") == span) ++spans[rank];
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_GT(spans[rank], 0) << "rank " << rank << " left no " << span;
}

TEST(Program, TracesAnyProgram) {
  const test::TemporaryFolder folder;
  const std::string trace = folder / "trace.json";
  Background run(with("LOCKSTEP_TRACE=" + trace, program({"launch", "-n", "3", "--", LOCKSTEP_HELLO})));
  ASSERT_EQ(run.wait(), 0) << run.errors();
  EXPECT_EQ(occurrences(run.output(), "the sum is 6"), 3) << run.output();
  expect_trace(trace, 3, "all_reduce");
}

/// The hashes that the tour shows, one for each number of ranks.
std::vector<std::string> hashes(const std::string& output) {
  std::vector<std::string> found;
  for (const auto& line : split(output, '\n')) {
    if (!has(line, " rank") || line.size() < 16) continue;
    const std::string last = line.substr(line.size() - 16);
    if (std::all_of(last.begin(), last.end(), [](unsigned char c) { return std::isxdigit(c) != 0; })) {
      found.push_back(last);
    }
  }
  return found;
}

TEST(Program, GivesATourAndItsTrace) {
  const test::TemporaryFolder folder;
  const std::string trace = folder / "tour.json";
  // Without PATH it finds no peers, which it would have to make ready first.
  Background run(with("PATH=/nowhere", program({"tour", "-n", "2", "--trace", trace})));
  ASSERT_TRUE(run.waits_for("How fast: ", 1, kMeasuring_s)) << run.output() << run.errors();
  // The benchmark that follows has a test of its own.
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_TRUE(run.all_gone(10)) << run.processes().size() << " left";

  EXPECT_TRUE(has(run.output(), "Hello from 2 ranks, connected by the back-end 'shm'")) << run.output();
  EXPECT_TRUE(has(run.output(), "The trace of all ranks is in " + trace)) << run.output();
  for (const char* collective : {"broadcast", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"}) {
    EXPECT_TRUE(has(run.output(), std::string("\n  ") + collective)) << collective << " in " << run.output();
  }
  const auto bits = hashes(run.output());
  ASSERT_EQ(bits.size(), 2U) << run.output();
  EXPECT_EQ(bits[0], bits[1]);
  expect_trace(trace, 2, "tour: collectives");
}

// ---- where it runs ---------------------------------------------------------------------------

/// The CPUs that threads of this name may use, as the kernel writes them, one entry per thread.
std::vector<std::string> cpus_of_threads(pid_t process, const std::string& name) {
  std::vector<std::string> cpus;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    if (contents(thread.path() / "comm") != name + "\n") continue;
    for (const auto& line : split(contents(thread.path() / "status"), '\n')) {
      if (line.starts_with("Cpus_allowed_list:")) cpus.push_back(line.substr(line.find('\t') + 1));
    }
  }
  return cpus;
}

TEST(Program, BindsTheCommunicationThreadWhereAsked) {
  const auto usable = usable_cpus();
  if (usable.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const std::string cpu = std::to_string(usable.back());
  Background run(with("LOCKSTEP_COMM_CPUS=" + cpu,
                      program({"launch", "-n", "2", "--bind", "none", "--", LOCKSTEP_MISBEHAVE, "loop"})));
  ASSERT_TRUE(run.waits_for("looping ", 2)) << run.errors();
  int ranks = 0;
  for (const pid_t process : run.processes()) {
    if (contents("/proc/" + std::to_string(process) + "/comm") != "misbehave\n") continue;
    ++ranks;
    EXPECT_EQ(cpus_of_threads(process, "lockstep-comm"), std::vector<std::string>{cpu});
    for (const auto& others : cpus_of_threads(process, "misbehave")) EXPECT_NE(others, cpu);
  }
  EXPECT_EQ(ranks, 2);
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

// ---- wrong use -------------------------------------------------------------------------------

struct WrongUse {
  std::vector<std::string> arguments;
  std::string named;  // what the user got wrong
};

/// Each is refused in one line, with the exit code of wrong use.
void expect_refused(const std::vector<WrongUse>& uses) {
  for (const auto& [arguments, named] : uses) {
    const std::string command = join(arguments, " ");
    Background run(program(arguments));
    EXPECT_EQ(run.wait(), 2) << command;
    const std::string errors = run.errors();
    EXPECT_TRUE(errors.starts_with("lockstep: ") && errors.ends_with('\n')) << command << ": " << errors;
    EXPECT_EQ(occurrences(errors, "\n"), 1) << command << ": " << errors;
    EXPECT_TRUE(has(errors, named)) << command << ": " << named << " in " << errors;
    EXPECT_TRUE(run.all_gone(2)) << command;
  }
}

TEST(WrongUse, OfTheProgram) {
  expect_refused(
      {{{}, "see 'lockstep --help'"},
       {{"juggle"}, "unknown command 'juggle'; known: bench"},
       {{"doctr"}, "did you mean 'doctor'?"},
       {{"--juggle"}, "unknown option '--juggle'; see 'lockstep --help'"},
       {{"launch", "-n", "2", "--bnid", "core", "--", "true"}, "unknown option '--bnid'; did you mean '--bind'?"}});
}

TEST(WrongUse, OfDoctorAndList) {
  expect_refused({{{"doctor", "--juggle"}, "unknown option '--juggle'; known: --help"},
                  {{"doctor", "more"}, "unexpected argument 'more'; see 'lockstep doctor --help'"},
                  {{"list", "--juggle"}, "unknown option '--juggle'; known: --help"},
                  {{"list", "more"}, "unexpected argument 'more'; see 'lockstep list --help'"}});
}

TEST(WrongUse, OfLaunch) {
  expect_refused({{{"launch", "--juggle", "--", "true"}, "unknown option '--juggle'; known: --help"},
                  {{"launch", "-n", "0", "--", "true"}, "-n 0"},
                  {{"launch", "-n", "2", "--threads", "0", "--", "true"}, "--threads 0"},
                  {{"launch", "-n", "two", "--", "true"}, "two; see 'lockstep launch --help'"},
                  {{"launch", "-n", "2", "true"}, "'true'; the program and its arguments come after '--'"},
                  {{"launch", "-n", "2", "--bind", "socks", "--", "true"}, "unknown binding 'socks'"},
                  {{"launch", "-n", "2", "--timeout", "soon", "--", "true"}, "soon; see 'lockstep launch --help'"},
                  {{"launch", "-n", "2", "--restarts", "-1", "--", "true"}, "--restarts -1"},
                  {{"launch", "--hosts", "a:many", "--", "true"}, "'many'"},
                  {{"launch", "-n", "2"}, "no program to launch"},
                  {{"launch", "-n", "2", "--", "/no/such/program"}, "cannot run '/no/such/program'"}});
}

TEST(WrongUse, OfBench) {
  const auto allreduce = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"bench", "allreduce", "--peers", "none"});
    return options;
  };
  const test::TemporaryFolder folder;
  expect_refused({{{"bench"}, "see 'lockstep bench --help'"},
                  {{"bench", "juggle"}, "unknown command 'juggle'; known: allreduce"},
                  {allreduce({"--juggle"}), "unknown option '--juggle'; known: --help"},
                  {allreduce({"-n", "0"}), "--ranks: Value 0"},
                  {allreduce({"-n", "two"}), "--ranks: Value two"},
                  {allreduce({"--rounds", "0"}), "--rounds: Value 0"},
                  {allreduce({"--sizes", "1KiB,64Kib7"}), "'64Kib7' is not a size"},
                  {allreduce({"--sizes", "6"}), "size 6"},
                  {{"bench", "allreduce", "--sizes", "100TiB"}, "size 100TiB on 2 ranks is more than the "},
                  {{"bench", "allreduce", "--peers", "opnmpi"}, "unknown peer 'opnmpi'; did you mean 'openmpi'?"},
                  {allreduce({"--json", folder / "absent/report.json"}), "absent/report.json"},
                  {allreduce({"--plot", folder / ""}), "cannot write "},
                  {allreduce({"--markdown", folder / "absent/report.md"}), "absent/report.md"},
                  {{"bench", "ml", "--cases", "kmean"}, "no case 'kmean' to measure; did you mean 'kmeans'?"},
                  {{"bench", "ml", "--peers", "sklaern"}, "unknown peer 'sklaern'; did you mean 'sklearn'?"},
                  {{"bench", "ml", "--rows", "10"}, "--rows: Value 10"},
                  {{"bench", "ml", "--threads", "0", "-n", "0", "--peers", "none"}, "neither threads nor ranks"},
                  {{"bench", "ml", "--rows", "1000000000000", "--peers", "none"}, "too much for the "},
                  {{"bench", "calibrate", "--juggle"}, "unknown option '--juggle'; known: --help"},
                  {{"bench", "calibrate", "-n", "0"}, "--ranks: Value 0"},
                  {{"bench", "calibrate", "-n", "1"}, "--ranks: Value 1"},
                  {{"bench", "calibrate", "-n", "two"}, "--ranks: Value two"},
                  {{"bench", "calibrate", "--rounds", "0"}, "--rounds: Value 0"},
                  {{"bench", "calibrate", "--rounds", "few"}, "--rounds: Value few"}});
}

TEST(WrongUse, OfBenchParallel) {
  expect_refused(
      {{{"bench", "parallel", "--cases", "tenser"}, "no case 'tenser' to measure; did you mean 'tensor'?"},
       {{"bench", "parallel", "--peers", "troch"}, "unknown peer 'troch'; did you mean 'torch'?"},
       {{"bench", "parallel", "-n", "1"}, "nothing is cut over 1 rank"},
       {{"bench", "parallel", "--batch", "5"}, "--batch 5 is no multiple of 2 ranks"},
       {{"bench", "parallel", "--batch", "6", "--micro-batches", "4"}, "--batch 6 is no multiple of 4 micro-batches"}});
}

TEST(WrongUse, OfTour) {
  expect_refused({{{"tour", "--juggle"}, "unknown option '--juggle'; known: --help"},
                  {{"tour", "-n", "0"}, "--ranks: Value 0"},
                  {{"tour", "-n", "65"}, "--ranks: Value 65"},
                  {{"tour", "-n", "two"}, "--ranks: Value two"},
                  {{"tour", "--trace", "/no/such/folder/trace"}, "cannot write /no/such/folder/trace"}});
}

// What ranks are told by their environment.
TEST(WrongUse, OfVariables) {
  for (const char* variable :
       {"LOCKSTEP_COMM_CPUS=first", "LOCKSTEP_COMM_CPUS=-1", "LOCKSTEP_COMM_CPUS=9999",
        "LOCKSTEP_TRACE=/no/such/folder/trace", "LOCKSTEP_TIMEOUT=soon", "LOCKSTEP_BACKEND=carrier-pigeon",
        "LOCKSTEP_LOG=loud", "LOCKSTEP_TRACE_CLOCK=sundial", "LOCKSTEP_TUNING={\"inline_byt",
        "LOCKSTEP_TUNING={\"inline_byte\": 5}", "LOCKSTEP_TUNING={\"piece_bytes\": -5}", "LOCKSTEP_SEGMENT=77"}) {
    const auto parts = split(variable, '=');
    Background run(with(variable, {LOCKSTEP_HELLO}));
    EXPECT_EQ(run.wait(), 2) << variable;
    const std::string errors = run.errors();
    EXPECT_TRUE(errors.starts_with("lockstep: ")) << errors;
    EXPECT_EQ(occurrences(errors, "\n"), 1) << errors;
    EXPECT_TRUE(has(errors, parts[0]) || has(errors, parts[1])) << variable << " in " << errors;
  }
}

}  // namespace
}  // namespace lockstep::test
