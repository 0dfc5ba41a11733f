#include "bench/report.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/plot.h"
#include "bench/report_files.h"
#include "bench/rounds.h"
#include "bench/table.h"
#include "bench/timed_item.h"
#include "bench/worker.h"
#include "lockstep/core/error.h"
#include "process.h"

namespace lockstep::apps {
namespace {

const Workload kSmall{"allreduce", 2, 1, 1024};
const Workload kLarge{"allreduce", 2, 1, 1048576};
const Participant kInPlace{kOurs, "in_place"};
const Participant kStaged{kOurs, "staged"};
const Participant kFast{"fast", ""};
const Participant kSlow{"slow", ""};

Report example() {
  Report report("allreduce");
  report.add(kInPlace, kSmall, {1e-6, 3e-6});
  report.add(kInPlace, kSmall, {2e-6});
  report.add(kStaged, kSmall, {8e-6});
  report.add(kSlow, kSmall, {9e-6});
  report.add(kFast, kSmall, {4e-6});
  report.add({kCeiling, ""}, kSmall, {1e-9});
  report.add(kInPlace, kLarge, {1e-3});
  report.skip("absent", "not installed");
  return report;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Statistics, MedianTakesTheMiddleOrTheMeanOfBoth) {
  EXPECT_EQ(median({5}), 5);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

TEST(Statistics, PercentileIsAMeasuredValue) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  EXPECT_EQ(percentile(values, 95), 95);
  EXPECT_EQ(percentile(values, 0), 1);
  EXPECT_EQ(percentile(values, 100), 100);
  EXPECT_EQ(percentile({7}, 95), 7);
  EXPECT_EQ(percentile({1, 2, 3}, 95), 3);
}

TEST(Report, PoolsRounds) {
  const auto report = example();
  ASSERT_NE(report.find(kInPlace, kSmall), nullptr);
  EXPECT_EQ(report.find(kInPlace, kSmall)->seconds.size(), 3U);
  EXPECT_EQ(report.find(kFast, kLarge), nullptr);
}

TEST(Report, ComparesEachOfOursWithTheBestPeer) {
  const auto ratios = example().ratios();
  ASSERT_EQ(ratios.size(), 2U);  // no peer ran the large one, and the ceiling is none
  EXPECT_EQ(ratios[0].ours, kInPlace);
  EXPECT_EQ(ratios[0].best_peer, "fast");
  EXPECT_DOUBLE_EQ(ratios[0].ratio, 2.0);
  EXPECT_DOUBLE_EQ(ratios[1].ratio, 0.5);
}

TEST(Report, ComparesWhatUsedAsManyCores) {
  Report report("ml");
  const Participant ranks{kOurs, "ranks"};
  report.add({kOurs, ""}, {"kmeans", 1, 2}, {1});
  report.add(ranks, {"kmeans", 2, 1}, {2});
  report.add(kFast, {"kmeans", 1, 2}, {4});
  report.add(kFast, {"kmeans", 1, 1}, {1});
  const auto ratios = report.ratios();
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_EQ(ratios[1].ours, ranks);
  EXPECT_DOUBLE_EQ(ratios[1].ratio, 2);
  EXPECT_EQ(report.workloads().size(), 2U);
  EXPECT_EQ(report.json()["rows"][1]["ranks"], 2);
  EXPECT_EQ(report.json()["rows"][1]["threads"], 1);
}

TEST(Report, JsonHasTheDocumentedShape) {
  const auto json = example().json();
  EXPECT_EQ(json["bench"], "allreduce");
  EXPECT_DOUBLE_EQ(json["rows"][0]["over_ceiling"].get<double>(), 2000);
  EXPECT_GE(json["machine"]["cpus"], 1);
  ASSERT_EQ(json["rows"].size(), 6U);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["who"], "lockstep");
  EXPECT_EQ(row["case"], "allreduce");
  EXPECT_EQ(row["variant"], "in_place");
  EXPECT_EQ(row["ranks"], 2);
  EXPECT_EQ(row["threads"], 1);
  EXPECT_EQ(row["bytes"], 1024);
  EXPECT_EQ(row["median_s"], 2e-6);
  EXPECT_EQ(row["p95_s"], 3e-6);
  EXPECT_EQ(row["reps"], 3);
  EXPECT_FALSE(row.contains("samples_per_s"));
  EXPECT_FALSE(json["rows"][2].contains("variant"));
  EXPECT_EQ(json["ratios"][0]["best_peer"], "fast");
  EXPECT_EQ(json["ratios"][0]["bytes"], 1024);
  EXPECT_EQ(json["skipped"][0]["who"], "absent");
  EXPECT_EQ(json["skipped"][0]["reason"], "not installed");
}

TEST(Report, JsonOfNothingHasEmptyLists) {
  const auto json = Report("allreduce").json();
  for (const auto* key : {"rows", "ratios", "skipped"}) EXPECT_TRUE(json[key].is_array() && json[key].empty()) << key;
}

TEST(Report, SamplesBecomeARate) {
  Report report("train");
  auto& series = report.series(kInPlace, {"mlp", 2, 1, 0});
  series.seconds = {0.5};
  series.samples_per_call = 64;
  series.peak_pss_bytes = 1000;
  const auto row = report.json()["rows"][0];
  EXPECT_EQ(row["samples_per_s"], 128.0);
  EXPECT_EQ(row["peak_pss_bytes"], 1000);
  EXPECT_FALSE(row.contains("bytes"));
}

TEST(Table, ListsEveryRowAndWhatWasSkipped) {
  const auto text = full_table(example());
  for (const auto* part :
       {"1 KiB", "lockstep in_place", "2.00 x fast", "0.50 x fast", "skipped absent: not installed"}) {
    EXPECT_TRUE(has(text, part)) << part << " is missing in\n" << text;
  }
  EXPECT_TRUE(has(medians_table(example()), "-"));  // what nobody measured yet
}

TEST(Table, AsMarkdownHasMediansAndRatios) {
  const auto text = markdown_table(example());
  EXPECT_TRUE(has(text, "| median | 1 KiB |")) << text;
  EXPECT_TRUE(has(text, "| **ratio, lockstep in_place** | **2.00 x fast** |")) << text;
  EXPECT_TRUE(has(text, "| time over ceiling, lockstep in_place | 2000.00 | - |")) << text;
}

TEST(Table, AsMarkdownLiesOnItsSideWhereWorkloadsAreMany) {
  Report report("ml");
  for (int cores = 1; cores <= 9; ++cores) report.add({kOurs, ""}, {"kmeans", 1, cores}, {1});
  report.add(kFast, {"kmeans", 1, 2}, {3});
  const auto text = markdown_table(report);
  EXPECT_TRUE(has(text, "| median | lockstep | fast | **ratio, lockstep** |\n| --- | --- | --- | --- |\n")) << text;
  EXPECT_TRUE(has(text, "\n| kmeans | 1.00 s | - | - |\n")) << text;
  EXPECT_TRUE(has(text, "\n| kmeans x 2 | 1.00 s | 3.00 s | **3.00 x fast** |\n")) << text;
}

TEST(Table, WhatIsReadBecomesARate) {
  Report report("ml");
  report.add({kOurs, ""}, {"kmeans"}, {0.5});
  report.series({kOurs, ""}, {"kmeans"}).bytes_per_call = 2'000'000'000;
  EXPECT_EQ(report.json()["rows"][0]["bytes_per_s"], 4e9);
  EXPECT_TRUE(has(full_table(report), "4.00"));
  EXPECT_TRUE(has(markdown_table(report), "| GB/s, lockstep | 4.00 |"));
}

TEST(Plot, DrawsOneLinePerParticipant) {
  const auto svg = svg_plot(example(), "a < b");
  std::size_t lines = 0;
  for (auto at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 5U);
  EXPECT_TRUE(has(svg, "a &lt; b"));
  EXPECT_TRUE(has(svg, ">lockstep in_place<"));
  EXPECT_TRUE(has(svg, ">1 KiB<"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_FALSE(has(svg, "nan") || has(svg, "inf"));
}

TEST(Plot, IsOverRanksWhereNothingHasASize) {
  Report report("train");
  for (const int ranks : {1, 2}) {
    for (const char* model : {"mlp", "cnn"}) report.add({kOurs, ""}, {model, ranks, 1, 0}, {0.1 * ranks});
  }
  const auto svg = svg_plot(report, "steps");
  for (const char* part : {">ranks<", ">2<", ">0<", ">150 ms<", ">lockstep, mlp<", ">lockstep, cnn<"})
    EXPECT_TRUE(has(svg, part)) << part;
  EXPECT_TRUE(has(medians_table(report), "cnn x 2"));
}

TEST(Plot, IsOverCoresWhereThereAreThreads) {
  Report report("ml");
  report.add({kOurs, ""}, {"kmeans", 1, 16}, {0.1});
  report.add({kOurs, "ranks"}, {"kmeans", 1, 1}, {10});
  const auto svg = svg_plot(report, "fits");
  for (const char* part : {">cores<", ">16<", ">10.0 s<"}) EXPECT_TRUE(has(svg, part)) << part;
  EXPECT_FALSE(has(svg, ">0<")) << "times that differ much are on a logarithmic axis";
}

TEST(Plot, TellsOurLinesApart) {
  Report report("train");
  for (const char* model : {"mlp", "cnn"}) {
    for (const char* variant : {"", "exact"}) report.add({kOurs, variant}, {model, 2, 1, 0}, {0.1});
  }
  std::set<std::string> looks;
  const auto svg = svg_plot(report, "steps");
  for (auto at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) {
    const auto look = svg.find("stroke=", at);
    looks.insert(svg.substr(look, svg.find("/>", at) - look));
  }
  EXPECT_EQ(looks.size(), 4);
}

TEST(Plot, OfOnePointOrNothingIsStillAPicture) {
  Report one("allreduce");
  one.add(kInPlace, kSmall, {1e-3});
  EXPECT_FALSE(has(svg_plot(one, "one"), "nan"));
  EXPECT_TRUE(has(svg_plot(Report("allreduce"), "none"), "nothing was measured"));
}

TEST(TimedItem, RoundTripsAndRefusesNonsense) {
  const auto item = parse_item(to_text({1024, 7}));
  EXPECT_EQ(item.bytes, 1024);
  EXPECT_EQ(item.reps, 7);
  for (const auto* bad : {"1024", "1024:0", "3:1", "6:1", "a:b", "1:2:3"}) EXPECT_THROW(parse_item(bad), Error) << bad;

  const auto calls = parse_line(to_line({64, {1e-6, 2e-6}}));
  ASSERT_TRUE(calls.has_value());
  EXPECT_EQ(calls->bytes, 64);
  EXPECT_EQ(calls->seconds, (std::vector<double>{1e-6, 2e-6}));
  for (const auto* other :
       {"", "hello", "{}", "[1]", R"({"bytes":1,"seconds":[]})", R"({"bytes":"x","seconds":[1]})"}) {
    EXPECT_FALSE(parse_line(other).has_value()) << other;
  }
}

TEST(Process, KeepsOutputErrorsAndCode) {
  const auto outcome = run_process({"/bin/sh", "-c", "echo out; echo ----- >&2; echo cause >&2; exit 3"}, 30);
  EXPECT_EQ(outcome.output, "out\n");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(reason_of(outcome), "cause");
}

TEST(Process, EndsTheWholeGroupWhenTimeIsUp) {
  const auto outcome = run_process({"/bin/sh", "-c", "sleep 600 & echo $!; wait"}, 0.3);
  const auto child = std::atoi(outcome.output.c_str());
  ASSERT_GT(child, 1) << outcome.output;
  // Its adoptive parent may take a moment to bury it.
  for (int i = 0; i < 100 && kill(child, 0) == 0; ++i) usleep(20'000);
  EXPECT_TRUE(kill(child, 0) == -1 && errno == ESRCH) << child << " runs on";
  EXPECT_TRUE(outcome.timed_out);
  EXPECT_EQ(outcome.exit_code, 128 + 15);
  EXPECT_TRUE(has(reason_of(outcome), "out of time"));
}

TEST(Process, NamesAProgramThatCannotStart) {
  const auto outcome = run_process({"/no/such/program"}, 30);
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_TRUE(has(reason_of(outcome), "cannot be started"));
}

TEST(ReportFiles, AreCheckedBeforeTheMeasurement) {
  ReportFiles files;
  files.markdown = testing::TempDir() + "report_test.md";
  EXPECT_NO_THROW(files.check());
  files.plot = "/";
  EXPECT_THROW(files.check(), Error);
  files.plot = "/no/such/folder/file";
  EXPECT_THROW(files.check(), Error);
}

TEST(ReportFiles, WordsOfOtherProgramsMayBeInAnyEncoding) {
  Report report("allreduce");
  report.skip("peer", "caf\xe9 not found");
  ReportFiles files;
  files.json = testing::TempDir() + "report_test_" + std::to_string(getpid()) + ".json";
  files.write(report, "");
  std::ifstream file(files.json);
  EXPECT_EQ(nlohmann::json::parse(file)["skipped"][0]["reason"], "caf\xef\xbf\xbd not found");
  (void)std::remove(files.json.c_str());
}

TEST(Contestant, OfOursEndsTheBenchmarkUnlessItMayFail) {
  const std::vector<std::string> command = {"/bin/sh", "-c", "echo 'lockstep: unknown key' >&2; exit 2"};
  Report report("parallel");
  Contestant one{kInPlace, command, kSmall};
  EXPECT_THROW(run_contestant(one, 30, "ours", report), Error);
  EXPECT_TRUE(report.skipped().empty());
  one.may_fail = true;
  EXPECT_FALSE(run_contestant(one, 30, "ours", report).has_value());
  EXPECT_FALSE(one.running);
  ASSERT_EQ(report.skipped().size(), 1U);
  EXPECT_EQ(report.skipped()[0].who, "ours");
  EXPECT_EQ(report.skipped()[0].reason, "unknown key");
}

TEST(Worker, FailureKeepsItsFaultAndIsSaidOnce) {
  const auto said = [](int exit_code, const std::string& errors) -> std::pair<Fault, std::string> {
    try {
      fail_worker("lockstep staged", {exit_code, false, "", errors});
    } catch (const Error& error) {
      return {error.fault(), error.message()};
    }
  };
  EXPECT_EQ(said(2, "lockstep: warning: ranks share CPUs\nlockstep: no such rank\n"),
            std::pair(Fault::Usage, std::string("lockstep staged: no such rank")));
  EXPECT_EQ(said(1, "Killed\n"), std::pair(Fault::Comm, std::string("lockstep staged: Killed")));
}

}  // namespace
}  // namespace lockstep::apps
