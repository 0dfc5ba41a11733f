// `lockstep data`, `pack` and `bench io`, as a user calls them.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class DataCommands : public ::testing::Test {
 protected:
  DataCommands() : folder_(fs::path(testing::TempDir()) / ("data_commands_" + std::to_string(getpid()))) {
    fs::create_directory(folder_);
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    std::vector<std::int64_t> labels(90);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    std::string bytes = data::npy_header(c10::ScalarType::Long, {90});
    bytes.append(reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof labels[0]);
    std::ofstream(folder_ / "labels.npy", std::ios::binary) << bytes;
  }
  ~DataCommands() override {
    unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  struct Answer {
    int code;
    std::string output;
    std::string errors;
  };
  static Answer run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LOCKSTEP_PROGRAM);
    Background process(arguments);
    const int code = process.wait(120);
    return {code, process.output(), process.errors()};
  }
  fs::path folder_;
};

TEST_F(DataCommands, InfoCountsClasses) {
  const auto answer = run({"data", "info", *this / "labels.npy", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto info = json::parse(answer.output);
  EXPECT_EQ(info["samples"], 90);
  EXPECT_EQ(info["fields"][0]["counts"], (json{{"0", 30}, {"1", 30}, {"2", 30}}));
  EXPECT_EQ(info["fields"][0]["mean"], 1.0);
}

TEST_F(DataCommands, HeadShowsSamples) {
  const auto answer = run({"data", "head", *this / "labels.npy", "-n", "2", "--first", "1"});
  EXPECT_EQ(answer.code, 0) << answer.errors;
  EXPECT_TRUE(has(answer.output, "sample 1 at byte 136\n  values       1\n")) << answer.output;
  EXPECT_EQ(occurrences(answer.output, "sample "), 2);
}

TEST_F(DataCommands, VerifyNamesTheCorruptSample) {
  ASSERT_EQ(run({"data", "verify", *this / "labels.npy"}).code, 0);
  std::fstream file(*this / "labels.npy", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(128 + 41 * 8).put('x');
  file.close();
  const auto answer = run({"data", "verify", *this / "labels.npy", "--json"});
  EXPECT_EQ(answer.code, 1);
  const auto found = json::parse(answer.output);
  ASSERT_EQ(found["corrupt"].size(), 1U) << answer.output;
  EXPECT_EQ(found["corrupt"][0]["sample"], 41);
}

TEST_F(DataCommands, VerifyNamesWhatWasCutOrIsNoImage) {
  std::ofstream(*this / "x.csv") << "a,b\n1,2\n3,4\n5,6\n";
  const auto first = run({"data", "verify", *this / "x.csv", "--json"});
  EXPECT_EQ(first.code, 0) << first.errors;
  EXPECT_EQ(json::parse(first.output)["checksums_taken_now"], true);
  EXPECT_EQ(json::parse(run({"data", "verify", *this / "x.csv", "--json"}).output)["checksums_taken_now"], false);
  std::ofstream(*this / "x.csv") << "a,b\n1,2\n3,4\n";
  const auto cut = run({"data", "verify", *this / "x.csv"});
  EXPECT_EQ(cut.code, 1);
  EXPECT_TRUE(has(cut.errors, "x.csv has 12 bytes, not 16 as when it was scanned")) << cut.errors;

  fs::create_directories(*this / "images/cat");
  std::ofstream(*this / "images/cat/one.jpg") << "\xFF\xD8\xFF no image";
  const auto torn = run({"data", "verify", *this / "images"});
  EXPECT_EQ(torn.code, 1);
  EXPECT_TRUE(has(torn.output, "decoding ") && has(torn.output, "cat/one")) << torn.output;
}

TEST_F(DataCommands, SplitKeepsClassesAndRepeats) {
  const auto answer = run({"data", "split", *this / "labels.npy", *this / "p.npy", "--parts", "train=0.8,test=0.2",
                           "--stratify", "values", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_EQ(json::parse(answer.output)["train"]["samples"], 72);
  const auto counts = json::parse(run({"data", "info", *this / "p-test.npy", "--json"}).output)["fields"][0]["counts"];
  EXPECT_EQ(counts, (json{{"0", 6}, {"1", 6}, {"2", 6}}));
}

TEST_F(DataCommands, PackConvertsInShards) {
  const auto answer = run({"pack", *this / "labels.npy", *this / "x.tar", "--shard-samples", "40", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_EQ(json::parse(answer.output)["files"].size(), 3U);
  EXPECT_EQ(json::parse(run({"data", "info", *this / "x-*.tar", "--json"}).output)["samples"], 90);
}

TEST_F(DataCommands, BenchReportsBothWorkloads) {
  const auto answer = run({"bench", "io", "--images", "300", "--records", "2000", "--rounds", "1", "--peers", "none",
                           "--folder", *this / "io", "--json", *this / "io.json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  std::ifstream file(*this / "io.json");
  const auto report = json::parse(file);
  ASSERT_EQ(report["rows"].size(), 2U) << report;
  for (const auto& row : report["rows"]) {
    EXPECT_GT(row["samples_per_s"], 0.0);
    EXPECT_TRUE(row.contains("peak_pss_bytes"));
  }
}

TEST_F(DataCommands, BenchReportsEveryFormat) {
  const std::vector<std::string> command = {
      "bench", "formats",  "--images", "12",       "--records",  "30",     "--batch",
      "4",     "--rounds", "1",        "--folder", *this / "io", "--json", *this / "formats.json"};
  const auto first = run(command);
  ASSERT_EQ(first.code, 0) << first.errors;
  const auto made = fs::last_write_time(*this / "io/records.tar");
  const auto second = run(command);
  ASSERT_EQ(second.code, 0) << second.errors;
  EXPECT_EQ(fs::last_write_time(*this / "io/records.tar"), made) << "made again, though it was there";
  std::ifstream file(*this / "formats.json");
  const auto report = json::parse(file);
  std::set<std::string> seen;
  for (const auto& row : report["rows"]) {
    const std::string workload = row["case"], format = row["variant"];
    seen.insert(workload + " " + format);
    const bool per_sample = row["who"] == "file-per-sample";
    EXPECT_EQ(row["files"], !per_sample ? 1 : workload == "images" ? 12 : 30) << row;
    EXPECT_GE(row["file_bytes"], workload == "images" ? 12 * 500 : 30 * 3072) << row;
    EXPECT_GT(row["disk_bytes"], 0) << row;
    EXPECT_GT(row["open_s"], 0.0) << row;
    EXPECT_GT(row["samples_per_s"], 0.0) << row;
  }
  // Two rows of records are npy: one file, and one per sample.
  EXPECT_EQ(report["rows"].size(), seen.size() + 1);
  EXPECT_EQ(report["ratios"].size(), report["rows"].size() - 2) << "every format beside one file per sample";
  for (const auto& skipped : report["skipped"]) {
    EXPECT_FALSE(skipped["reason"].get<std::string>().empty());
    seen.insert(skipped["who"]);
  }
  // Each format was read, or says why not.
  for (const auto& registered : json::parse(run({"list", "--json"}).output)) {
    if (registered["kind"] != "format") continue;
    for (const char* workload : {"images ", "records "}) {
      EXPECT_EQ(seen.count(workload + registered["name"].get<std::string>()), 1U) << registered << report;
    }
  }
  for (const char* surely : {"images folder", "images tar", "images zip", "images tfrecord", "records npy",
                             "records npz", "records idx", "records csv", "records tar"}) {
    EXPECT_TRUE(std::any_of(report["rows"].begin(), report["rows"].end(), [&](const json& row) {
      return row["case"].get<std::string>() + " " + row["variant"].get<std::string>() == surely;
    })) << surely;
  }
}

TEST_F(DataCommands, RefuseWrongUseInOneLine) {
  for (const auto& [arguments, named] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"data", "info", "mnits"}, "did you mean 'mnist'?"},
           {{"data", "head", *this / "absent.npy"}, "absent.npy"},
           {{"data", "inf"}, "did you mean 'info'?"},
           {{"pack", *this / "labels.npy", *this / "x.juggle"}, "known extensions:"},
           {{"pack", *this / "labels.npy", *this / "x.txt"}, "text"},
           {{"pack", *this / "labels.npy", "/no/such/folder/x.npy"}, "/no/such/folder"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--parts", "train=2"}, "a part of 2"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--stratify", "label"}, "known: values"},
           {{"data", "get", "mnits"}, "mnist"},
           {{"bench", "io", "--peers", "troch"}, "did you mean 'torch'?"}}) {
    const auto answer = run(arguments);
    EXPECT_EQ(answer.code, 2) << named << ": " << answer.errors;
    EXPECT_EQ(occurrences(answer.errors, "\n"), 1) << answer.errors;
    EXPECT_TRUE(has(answer.errors, named)) << answer.errors;
  }
}

}  // namespace
}  // namespace lockstep::test
