// `lockstep data`, `pack` and `bench io`, as a user calls them.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "background.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class DataCommands : public ::testing::Test {
 protected:
  DataCommands() {
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
    std::vector<std::int64_t> labels(90);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % 3);
    write("labels.npy", labels, c10::ScalarType::Long);
  }
  template <class Number>
  void write(const std::string& name, const std::vector<Number>& numbers, c10::ScalarType type) const {
    std::string bytes = data::npy_header(type, {static_cast<std::int64_t>(numbers.size())});
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number));
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  ~DataCommands() override { unsetenv("XDG_CACHE_HOME"); }
  std::string operator/(const std::string& name) const { return folder_ / name; }

  static Answer run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LOCKSTEP_PROGRAM);
    return answer_of(arguments, 120);
  }
  const test::TemporaryFolder folder_;
};

TEST_F(DataCommands, InfoCountsClasses) {
  const auto answer = run({"data", "info", *this / "labels.npy", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto info = json::parse(answer.output);
  EXPECT_EQ(info["samples"], 90);
  EXPECT_EQ(info["fields"][0]["counts"], (json{{"0", 30}, {"1", 30}, {"2", 30}}));
  EXPECT_EQ(info["fields"][0]["mean"], 1.0);
}

TEST_F(DataCommands, InfoTellsLargeClassesApart) {
  constexpr std::int64_t kWhole = std::int64_t{1} << 53;
  write("ids.npy", std::vector<std::int64_t>{kWhole, kWhole + 1, kWhole}, c10::ScalarType::Long);
  const auto answer = run({"data", "info", *this / "ids.npy", "--json"});
  EXPECT_EQ(json::parse(answer.output)["fields"][0]["counts"],
            (json{{"9007199254740992", 2}, {"9007199254740993", 1}}));
}

TEST_F(DataCommands, InfoCountsNoClassesWhereThereAreTooMany) {
  std::vector<std::int64_t> ids(5000);
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  write("ids.npy", ids, c10::ScalarType::Long);
  const auto field = json::parse(run({"data", "info", *this / "ids.npy", "--json"}).output)["fields"][0];
  EXPECT_FALSE(field.contains("counts"));
  EXPECT_EQ(field["max"], 4999);
}

TEST_F(DataCommands, InfoIsExactFarFromZero) {
  write("far.npy", std::vector<double>{1e9, 1e9 + 1, 1e9 + 2}, c10::ScalarType::Double);
  const auto far = json::parse(run({"data", "info", *this / "far.npy", "--json"}).output)["fields"][0];
  EXPECT_NEAR(far["std"].get<double>(), 0.8164965809, 1e-9);
  EXPECT_EQ(far["mean"], 1e9 + 1);
  // Over several threads' pieces.
  std::vector<double> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = 1e9 + static_cast<double>(i % 3);
  write("many.npy", many, c10::ScalarType::Double);
  const auto all = json::parse(run({"data", "info", *this / "many.npy", "--json"}).output)["fields"][0];
  EXPECT_NEAR(all["std"].get<double>(), 0.8164965809, 1e-6);
}

TEST_F(DataCommands, InfoCountsWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  write("x.npy", std::vector<double>{1, kInfinity, 3, -kInfinity, std::nan("")}, c10::ScalarType::Double);
  const auto answer = run({"data", "info", *this / "x.npy"});
  EXPECT_TRUE(has(answer.output, "1 to 3, mean 2, std 1, 1 NaN, 2 infinite")) << answer.output;
}

TEST_F(DataCommands, InfoGivesLengthsOfText) {
  std::ofstream(*this / "lines.txt") << "a\nbcd\nefghi\n";
  const auto answer = run({"data", "info", *this / "lines.txt"});
  EXPECT_TRUE(has(answer.output, "text   1 to 5 bytes, mean 3")) << answer.output;
  EXPECT_TRUE(has(answer.output, "3 samples, 3 B each on average")) << answer.output;
}

TEST_F(DataCommands, InfoLooksAtSamplesFromAllOver) {
  std::vector<std::int64_t> sorted(20'000);
  for (std::size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<std::int64_t>(i / 2000);
  write("sorted.npy", sorted, c10::ScalarType::Long);
  const auto counts = [&](const std::string& file, const std::string& samples) {
    const auto answer = run({"data", "info", *this / file, "--samples", samples, "--json"});
    return json::parse(answer.output)["fields"][0]["counts"];
  };
  EXPECT_EQ(counts("sorted.npy", "10").size(), 10U);
  std::vector<std::int64_t> ids(1999);
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  write("ids.npy", ids, c10::ScalarType::Long);
  const auto some = counts("ids.npy", "999");
  EXPECT_EQ(some.size(), 999U) << "none twice";
  std::int64_t last = 0;
  for (const auto& [id, times] : some.items()) last = std::max<std::int64_t>(last, std::stoll(id));
  EXPECT_GE(last, 1995);
  EXPECT_EQ(counts("labels.npy", "30").size(), 3U) << "every third is of one class";
}

TEST_F(DataCommands, HeadShowsIntegersInFull) {
  write("ids.npy", std::vector<std::int64_t>{1234567890123456789, -7}, c10::ScalarType::Long);
  const auto answer = run({"data", "head", *this / "ids.npy"});
  EXPECT_TRUE(has(answer.output, "values       1234567890123456789\n")) << answer.output;
  EXPECT_TRUE(has(answer.output, "values       -7\n")) << answer.output;
  write("large.npy", std::vector<std::uint64_t>{UINT64_MAX}, c10::ScalarType::UInt64);
  EXPECT_TRUE(has(run({"data", "head", *this / "large.npy"}).output, "values       18446744073709551615\n"));
  const auto all = run({"data", "head", *this / "labels.npy", "-n", "9223372036854775807", "--first", "1"});
  EXPECT_EQ(occurrences(all.output, "sample "), 89);
  EXPECT_EQ(run({"data", "head", *this / "labels.npy", "--first", "9223372036854775807"}).code, 2);
}

TEST_F(DataCommands, HeadShowsNamesInOneLine) {
  fs::create_directories(*this / "images/cat");
  std::ofstream(*this / "images/cat/two\nlines.jpg") << "\xFF\xD8\xFF";
  const auto answer = run({"data", "head", *this / "images"});
  EXPECT_TRUE(has(answer.output, "two\\nlines")) << answer.output;
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

TEST_F(DataCommands, VerifySaysWhenChecksumsCannotBeKept) {
  std::ofstream(*this / "x.csv") << "a,b\n1,2\n3,4\n5,6\n";
  std::ofstream(*this / "cache") << "no folder";
  for (const std::string name : {"x.csv", "labels.npy"}) {
    fs::create_directory(*this / (name + ".lsx"));  // also root cannot put a file there
    const auto answer = run({"data", "verify", *this / name});
    EXPECT_EQ(answer.code, 0) << answer.errors;
    EXPECT_TRUE(has(answer.output, "could not be kept")) << answer.output;
    EXPECT_EQ(occurrences(answer.errors, "cannot be kept"), 1) << answer.errors;
    EXPECT_EQ(json::parse(run({"data", "verify", *this / name, "--json"}).output)["checksums_kept"], false);
  }
}

TEST_F(DataCommands, VerifyLooksAtTheChecksumsOfAnArchive) {
  ASSERT_EQ(run({"pack", *this / "labels.npy", *this / "x.npz"}).code, 0);
  fs::remove(*this / "x.npz.lsx");
  std::fstream file(*this / "x.npz", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + 128 + 41 * 8).put('x');
  file.close();
  const auto answer = run({"data", "verify", *this / "x.npz"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_TRUE(has(answer.errors, "x.npz") && has(answer.errors, "values.npy") && has(answer.errors, "crc32"))
      << answer.errors;
}

TEST_F(DataCommands, SplitKeepsClassesAndRepeats) {
  const auto answer = run({"data", "split", *this / "labels.npy", *this / "p.npy", "--parts", "train=0.8,test=0.2",
                           "--stratify", "values", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_EQ(json::parse(answer.output)["train"]["samples"], 72);
  const auto counts = json::parse(run({"data", "info", *this / "p-test.npy", "--json"}).output)["fields"][0]["counts"];
  EXPECT_EQ(counts, (json{{"0", 6}, {"1", 6}, {"2", 6}}));
}

TEST_F(DataCommands, SplitKeepsClassesOfText) {
  std::ofstream csv(*this / "pets.csv");
  csv << "x,pet\n";
  for (int i = 0; i < 40; ++i) csv << i << (i % 4 == 0 ? ",cat\n" : ",dog\n");
  csv.close();
  const auto answer = run(
      {"data", "split", *this / "pets.csv", *this / "p.csv", "--parts", "a=0.5,b=0.5", "--stratify", "pet", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  for (const char* part : {"p-a.csv", "p-b.csv"}) {
    std::ifstream file(*this / part);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_EQ(occurrences(text, "cat"), 5) << part;
    EXPECT_EQ(occurrences(text, "dog"), 15) << part;
  }
}

TEST_F(DataCommands, SplitChecksAllPartsBeforeItWrites) {
  for (const auto& [parts, named] :
       std::vector<std::pair<std::string, std::string>>{{"a=0.5,a=0.5", "names 'a' twice"},
                                                        {"=0.5,b=0.5", "expected NAME=SHARE"},
                                                        {"a=0.5,b/c=0.5", "'b/c' cannot be"},
                                                        {"a=0.999,b=0.001", "part 'b' of 90 samples would be empty"}}) {
    const auto answer = run({"data", "split", *this / "labels.npy", *this / "q.npy", "--parts", parts});
    EXPECT_EQ(answer.code, 2) << parts;
    EXPECT_TRUE(has(answer.errors, named)) << answer.errors;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_FALSE(entry.path().filename().string().starts_with("q")) << entry.path();
    }
  }
}

TEST_F(DataCommands, SplitNamesPartsAsTheyWereAskedFor) {
  const auto answer = run({"data", "split", *this / "labels.npy", *this / "p.npy", "--parts", "z=0.5,a=0.5"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_LT(answer.output.find("p-z.npy"), answer.output.find("p-a.npy")) << answer.output;
}

TEST_F(DataCommands, LeaveTheirSourceAsItIs) {
  std::ofstream(*this / "i.csv") << "x,y\n1,2\n3,4\n5,6\n";
  const auto same = run({"pack", *this / "i.csv", *this / "i.csv", "--fields", "y"});
  EXPECT_EQ(same.code, 2);
  EXPECT_TRUE(has(same.errors, "i.csv would replace the source")) << same.errors;
  EXPECT_EQ(fs::file_size(*this / "i.csv"), 16U);

  fs::copy_file(*this / "labels.npy", *this / "p-b.npy");
  const auto part = run({"data", "split", *this / "p-b.npy", *this / "p.npy", "--parts", "a=0.5,b=0.5"});
  EXPECT_EQ(part.code, 2);
  EXPECT_TRUE(has(part.errors, "p-b.npy would replace the source")) << part.errors;
  EXPECT_EQ(fs::file_size(*this / "p-b.npy"), fs::file_size(*this / "labels.npy"));
  EXPECT_FALSE(fs::exists(*this / "p-a.npy")) << "another part was written";
}

TEST_F(DataCommands, PackWritesGeneratedTokens) {
  const auto answer = run({"pack", "tokens:samples=5,length=8", *this / "x.tokens"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_EQ(fs::file_size(*this / "x.tokens"), 5U * 8 * 2);
  EXPECT_EQ(run({"data", "info", *this / "x.tokens", "--window", "8"}).code, 0);
}

TEST_F(DataCommands, PackConvertsInShards) {
  const auto answer = run({"pack", *this / "labels.npy", *this / "x.tar", "--shard-samples", "40", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_EQ(json::parse(answer.output)["files"].size(), 3U);
  EXPECT_EQ(json::parse(run({"data", "info", *this / "x-*.tar", "--json"}).output)["samples"], 90);
}

TEST_F(DataCommands, PackThatIsInterruptedLeavesNothing) {
  constexpr std::int64_t kMany = 100'000'000;
  const std::string header = data::npy_header(c10::ScalarType::Long, {kMany});
  std::ofstream(*this / "long.npy", std::ios::binary) << header;
  fs::resize_file(*this / "long.npy", header.size() + kMany * sizeof(std::int64_t));  // a hole, on no disk
  for (const int signal : {SIGTERM, SIGINT}) {
    Background process({LOCKSTEP_PROGRAM, "pack", *this / "long.npy", *this / "x.tar"});
    const auto written = [&] {
      return std::count_if(fs::directory_iterator(folder_.path()), {},
                           [](const auto& entry) { return entry.path().filename().string().starts_with("x.tar"); });
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (written() == 0 && std::chrono::steady_clock::now() < end) usleep(10'000);
    ASSERT_EQ(written(), 1);
    process.signal(signal);
    EXPECT_EQ(process.wait(60), 128 + signal) << process.errors();
    EXPECT_EQ(written(), 0);
  }
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

TEST_F(DataCommands, BenchRefusesDataOfAnotherSize) {
  const auto bench = [&](const std::string& what, const std::string& images, const std::string& records) {
    std::vector<std::string> command = {"bench",   what, "--images", images, "--records", records,
                                        "--batch", "4",  "--rounds", "1",    "--folder",  *this / "io"};
    if (what == "io") command.insert(command.end(), {"--peers", "none"});
    return run(command);
  };
  ASSERT_EQ(bench("formats", "12", "30").code, 0);
  ASSERT_EQ(bench("io", "12", "30").code, 0);
  ASSERT_EQ(bench("io", "12", "30").code, 0);
  for (const std::string what : {"formats", "io"}) {
    const auto images = bench(what, "13", "30"), records = bench(what, "12", "31");
    EXPECT_EQ(images.code, 2);
    EXPECT_TRUE(has(images.errors, "images.tar is of an earlier run and has 12 samples, not 13; name another --folder"))
        << images.errors;
    EXPECT_EQ(records.code, 2);
    EXPECT_TRUE(has(records.errors, "records.npy is of an earlier run and has 30 samples, not 31")) << records.errors;
  }
  // A copy that is of another size than its source.
  fs::remove(*this / "io/records.npz");
  ASSERT_EQ(run({"pack", *this / "labels.npy", *this / "io/records.npz"}).code, 0);
  const auto copy = bench("formats", "12", "30");
  EXPECT_EQ(copy.code, 2);
  EXPECT_TRUE(has(copy.errors, "records.npz is of an earlier run and has 90 samples, not 30")) << copy.errors;
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
           {{"pack", *this / "labels.npy", *this / "x.txt"}, "lines hold text, not values: int64; use csv"},
           {{"pack", *this / "labels.npy", "/no/such/folder/x.npy"}, "/no/such/folder"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--parts", "train=2"}, "a part of 2"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--stratify", "label"}, "known: values"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--folds", "1"}, "from 2 on"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--folds", "91"}, "there must be 2 or more"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--folds", "0"}, "from 2 on"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--folds", "3", "--parts", "a=0.5,b=0.5"},
            "excludes"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--seed", "-1"}, "from 0 on"},
           {{"data", "split", *this / "labels.npy", *this / "p.npy", "--seed", "99999999999999999999"}, "too large"},
           {{"data", "info", *this / "labels.npy", "--window", "-5"}, "from 1 on"},
           {{"data", "head", *this / "labels.npy", "--first", "90"}, "has 90 samples, the last is 89"},
           {{"pack", *this / "labels.npy", *this / "x.npz", "--shard-samples", "0"}, "from 1 on"},
           {{"pack", *this / "labels.npy", *this / "x.npz", "--shard-size", "0"}, "holds no samples"},
           {{"pack", *this / "labels.npy", *this / "x.npz", "--shard-samples", "9", "--shard-size", "1KiB"},
            "excludes"},
           {{"pack", *this / "labels.npy", *this / "x.npz", "--level", "3"}, "--compression"},
           {{"data", "info", *this / "labels.npy", "--samples", "-3"},
            "--samples: '-3' is not a whole number from 1 on"},
           {{"pack", *this / "labels.npy", *this / "x.npz", "--fields", "values,values"}, "names 'values' twice"},
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
