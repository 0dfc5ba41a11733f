// Four ranks and a shared disk that counts: under cache = "cluster" the job reads every
// byte once, under "node" every host does, and four readers without a cache four times.
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "background.h"
#include "lockstep/core/testing.h"
#include "lockstep/data/npy_header.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kRecordBytes = 3072;
/// More of them for figures: READ_ONCE_RECORDS=100000.
const std::int64_t kRecords = std::getenv("READ_ONCE_RECORDS") ? std::atoll(std::getenv("READ_ONCE_RECORDS")) : 10'000;
const std::int64_t kBytes = kRecords * kRecordBytes;
constexpr const char kSpeed[] = "50000000";

/// Of "epoch: 1.234 s" among what a reader said.
double epoch_seconds(const std::string& words) {
  const std::string head = "epoch: ";
  const auto place = words.find(head);
  EXPECT_NE(place, std::string::npos) << words;
  return place == std::string::npos ? 0 : std::atof(words.c_str() + place + head.size());
}

class SlowDisk {
 public:
  explicit SlowDisk(const fs::path& folder)
      : mount_(folder / "shared"), counts_(folder / "counts"), real_(folder / "real") {
    fs::create_directories(mount_);
    fs::create_directories(real_);
  }
  /// False where the kernel or the user cannot mount.
  bool start() {
    process_ =
        std::make_unique<Background>(std::vector<std::string>{LOCKSTEP_SLOW_DISK, real_, mount_, kSpeed, counts_});
    for (int i = 0; i < 100 && fs::is_empty(mount_); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !fs::is_empty(mount_);
  }
  /// How many bytes were read in all.
  std::int64_t stop() {
    process_->signal(SIGTERM);
    process_->wait();
    std::ifstream lines(counts_);
    std::string name;
    std::int64_t sum = 0, count = 0;
    while (lines >> name >> count) sum += count;
    return sum;
  }
  /// Where its files really lie, and where they are seen.
  fs::path real() const { return real_; }
  fs::path seen() const { return mount_; }

 private:
  fs::path mount_, counts_, real_;
  std::unique_ptr<Background> process_;
};

class ReadOnce : public ::testing::Test {
 protected:
  ReadOnce() : disk_(folder_.path()) {
    std::string bytes = data::npy_header(c10::ScalarType::Byte, {kRecords, kRecordBytes});
    bytes.append(static_cast<std::size_t>(kBytes), 'x');
    std::ofstream(disk_.real() / "set.npy", std::ios::binary) << bytes;
  }
  /// The same records in another format, its index beside it.
  void pack_as(const std::string& name) {
    for (const auto& command : {std::vector<std::string>{"pack", disk_.real() / "set.npy", disk_.real() / name},
                                {"data", "info", disk_.real() / name}}) {
      std::vector<std::string> words = {LOCKSTEP_PROGRAM};
      words.insert(words.end(), command.begin(), command.end());
      Background run(words);
      ASSERT_EQ(run.wait(60), 0) << run.errors();
    }
    name_ = name;
  }
  std::int64_t bytes_of_set() const { return static_cast<std::int64_t>(fs::file_size(disk_.real() / name_)); }
  /// Every byte once: the index and the heads of files are under 1 %.
  void expect_read_once(const std::string& cache, int ranks) {
    const auto [bytes, seconds] = measure({reader(ranks, cache)});
    if (bytes < 0) GTEST_SKIP() << "FUSE cannot mount here";
    const double share = static_cast<double>(bytes) / static_cast<double>(bytes_of_set());
    std::printf("%s, %s: %.4f of the data set, %.2f s\n", name_.c_str(), cache.c_str(), share, seconds);
    EXPECT_GE(bytes, kBytes) << cache;
    EXPECT_LE(share, 1.01) << cache;
  }
  std::vector<std::string> reader(int ranks, const std::string& cache) const {
    return {LOCKSTEP_PROGRAM,
            "launch",
            "-n",
            std::to_string(ranks),
            "--bind",
            "none",
            "--",
            LOCKSTEP_RESUME,
            disk_.seen() / name_,
            "100",
            "/dev/null",
            cache,
            "blocked"};
  }
  /// Bytes read by programs that run beside each other, and the longest time of an epoch among them.
  std::pair<std::int64_t, double> measure(const std::vector<std::vector<std::string>>& commands) {
    if (!disk_.start()) return {-1, 0};
    std::vector<std::unique_ptr<Background>> all;
    for (const auto& command : commands) all.push_back(std::make_unique<Background>(command));
    double seconds = 0;
    for (auto& one : all) {
      EXPECT_EQ(one->wait(60), 0) << one->errors();
      seconds = std::max(seconds, epoch_seconds(one->errors()));
    }
    return {disk_.stop(), seconds};
  }

  const test::TemporaryFolder folder_;
  SlowDisk disk_;
  std::string name_ = "set.npy";
};

TEST_F(ReadOnce, ByTheJob) { expect_read_once("cluster", 4); }

TEST_F(ReadOnce, ByTheHost) { expect_read_once("node", 4); }

TEST_F(ReadOnce, AnArchiveByTheJobAndByTheHost) {
  ASSERT_NO_FATAL_FAILURE(pack_as("set.tar"));
  expect_read_once("cluster", 4);
  expect_read_once("node", 4);
}

TEST_F(ReadOnce, ByEachReaderWithoutACache) {
  const auto [bytes, seconds] = measure({4, reader(1, "none")});
  if (bytes < 0) GTEST_SKIP() << "FUSE cannot mount here";
  std::printf("four readers: %.3f of the data set, %.2f s\n", static_cast<double>(bytes) / static_cast<double>(kBytes),
              seconds);
  EXPECT_GE(bytes, 4 * kBytes);
}

}  // namespace
}  // namespace lockstep::test
