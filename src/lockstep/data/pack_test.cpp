#include "lockstep/data/pack.h"

#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <numeric>

#include "lockstep/core/file.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/testing.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

/// Cannot be read to its end.
class Torn final : public Dataset {
 public:
  explicit Torn(DatasetPtr source) : source_(std::move(source)) {}
  const Schema& schema() const noexcept override { return source_->schema(); }
  std::int64_t size() const noexcept override { return source_->size(); }
  void read(std::int64_t index, Sample& sample) const override {
    if (index >= 50) fail(Fault::Io, "the disk is gone");
    source_->read(index, sample);
  }
  std::string name(std::int64_t index) const override { return source_->name(index); }

 private:
  DatasetPtr source_;
};

class Pack : public ::testing::Test {
 protected:
  Pack() {
    std::vector<float> numbers(100 * 2);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    std::string bytes = npy_header(c10::ScalarType::Float, {100, 2});
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    source_ = open(folder_.write("source.npy", bytes));
  }
  int files(const std::string& name) const { return static_cast<int>(expand(folder_ / name).size()); }
  Folder folder_;
  DatasetPtr source_;
};

TEST_F(Pack, WritesOneFile) {
  std::int64_t told = 0;
  const auto result = pack(source_, folder_ / "copy.npy", {}, [&](std::int64_t samples) { told += samples; });
  EXPECT_EQ(result.files, std::vector<std::string>{folder_ / "copy.npy"});
  EXPECT_EQ(told, 100);
  expect_same(*open(folder_ / "copy.npy"), *source_);
}

TEST_F(Pack, WritesShardsThatReadAsOne) {
  PackOptions options;
  options.shard_samples = 30;
  EXPECT_EQ(pack(source_, folder_ / "part.npy", options).files.size(), 4U);
  EXPECT_TRUE(fs::exists(folder_ / "part-00003.npy"));
  expect_same(*open(folder_ / "part-*.npy"), *source_);
  options = {};
  options.shard_bytes = 80;
  EXPECT_EQ(pack(source_, folder_ / "small.npy", options).files.size(), 10U);
}

TEST_F(Pack, ChoosesAFieldOnce) {
  EXPECT_EQ(choose_fields(source_, {"values"})->schema(), source_->schema());
  EXPECT_TRUE(has(message_of([&] { choose_fields(source_, {"values", "values"}); }, Fault::Usage), "'values' twice"));
}

TEST_F(Pack, GoesOnWhereItWas) {
  PackOptions options;
  options.shard_samples = 10;
  options.source.identity = "source.npy";
  // Shards 0 to 4 are there, and the journal.
  message_of([&] { pack(std::make_shared<Torn>(source_), folder_ / "p.npy", options); }, Fault::Io);
  EXPECT_TRUE(fs::exists(folder_ / "p.npy.packing"));
  EXPECT_FALSE(fs::exists(folder_ / "p-00005.npy"));
  const int found = files("p-*.npy");
  EXPECT_GE(found, 1);

  PackOptions other = options;
  other.source.identity = "another.npy";
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "p.npy", other); }, Fault::Usage), "was interrupted"));

  const auto result = pack(source_, folder_ / "p.npy", options);
  EXPECT_EQ(result.shards_found, found);
  EXPECT_FALSE(fs::exists(folder_ / "p.npy.packing"));
  expect_same(*open(folder_ / "p-*.npy"), *source_);
}

TEST_F(Pack, GoesOnOnlyFromShardsOfTheSameSize) {
  PackOptions options;
  options.shard_samples = 34;  // the first of three can be read
  message_of([&] { pack(std::make_shared<Torn>(source_), folder_ / "p.npy", options); }, Fault::Io);
  options.shard_samples = 40;  // three as well
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "p.npy", options); }, Fault::Usage), "was interrupted"));
}

TEST_F(Pack, KnowsTheSourceByItsFiles) {
  const std::string file = folder_ / "source.npy", before = source_of(file, {}).identity;
  EXPECT_EQ(source_of(file, {}).identity, before);
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_NE(source_of(file, {}).identity, before);
  OpenOptions other;
  other.separator = ";";
  EXPECT_NE(source_of(file, other).identity, source_of(file, {}).identity);
  EXPECT_EQ(source_of("blobs:samples=3", {}).identity, "blobs:samples=3");
  EXPECT_TRUE(source_of("blobs:samples=3", {}).files.empty());
}

TEST_F(Pack, DoesNotReplaceItsSource) {
  PackOptions options;
  options.shard_samples = 30;
  pack(source_, folder_ / "p.npy", options);
  fs::create_symlink("source.npy", folder_ / "link.npy");
  options.shard_samples = 0;
  options.source = source_of(folder_ / "source.npy", {});
  for (const std::string name : {"source.npy", "link.npy"}) {
    const auto before = contents(folder_ / "source.npy");
    EXPECT_TRUE(
        has(message_of([&] { pack(source_, folder_ / name, options); }, Fault::Usage), name + " would replace"));
    EXPECT_EQ(contents(folder_ / "source.npy"), before);
  }
  options.shard_samples = 40;
  options.source = source_of(folder_ / "p-*.npy", {});
  const auto shards = open(folder_ / "p-*.npy");
  EXPECT_TRUE(has(message_of([&] { pack(shards, folder_ / "p.npy", options); }, Fault::Usage), "p-00000.npy would"));
  EXPECT_FALSE(fs::exists(folder_ / "p.npy.packing"));
  expect_same(*open(folder_ / "p-*.npy"), *source_);
}

TEST_F(Pack, LeavesAnotherThatRunsAlone) {
  PackOptions shards, one;
  shards.shard_samples = 10;
  // Into one file as well: it would lie among the shards.
  for (const auto& options : {shards, one}) {
    std::once_flag once;
    std::string message;
    const auto second = [&](std::int64_t) {
      std::call_once(once,
                     [&] { message = message_of([&] { pack(source_, folder_ / "p.npy", options); }, Fault::Usage); });
    };
    EXPECT_EQ(pack(source_, folder_ / "p.npy", shards, second).shards_found, 0);
    EXPECT_TRUE(has(message, "another pack is writing " + folder_ / "p.npy")) << message;
    EXPECT_FALSE(fs::exists(folder_ / "p.npy.packing"));
    expect_same(*open(folder_ / "p-*.npy"), *source_);
  }
}

TEST_F(Pack, TakesATornJournalAsNone) {
  PackOptions options;
  options.shard_samples = 50;
  options.source.identity = "source.npy";
  for (const std::string torn : {"", "source"}) {
    folder_.write("p.npy.packing", torn);
    EXPECT_EQ(pack(source_, folder_ / "p.npy", options).shards_found, 0);
    EXPECT_FALSE(fs::exists(folder_ / "p.npy.packing"));
  }
}

TEST_F(Pack, RefusesToLieAmongShardsOfAnother) {
  PackOptions options;
  options.shard_samples = 30;
  pack(source_, folder_ / "p.npy", options);
  options.shard_samples = 50;
  EXPECT_TRUE(
      has(message_of([&] { pack(source_, folder_ / "p.npy", options); }, Fault::Usage), "p-00002.npy is of a pack"));
  fs::remove(folder_ / "p-00002.npy");
  fs::remove(folder_ / "p-00003.npy");
  pack(source_, folder_ / "p.npy", options);
  expect_same(*open(folder_ / "p-*.npy"), *source_);
}

TEST_F(Pack, RemovesWhatAKilledOneLeft) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string mine = aside_of("x.npy"), number = std::to_string(getpid());
  const auto of_process = [&](pid_t process) {
    return std::string(mine).replace(mine.find(number, 10), number.size(), std::to_string(process));
  };
  const auto left = folder_.write(of_process(child), "half");
  const auto living = folder_.write(of_process(getppid()), "half");
  const auto other = folder_.write("y" + of_process(child), "half");
  std::string elsewhere = of_process(child);
  elsewhere.back() = elsewhere.back() == '0' ? '1' : '0';  // another host
  folder_.write(elsewhere, "half");
  pack(source_, folder_ / "x.npy", {});
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::exists(folder_ / elsewhere));
}

TEST_F(Pack, LeavesNothingOnAFullDisk) {
  // A file may not grow beyond this: as on a full disk, but for this process alone.
  const rlimit before = limit_file_size(500);
  const auto message = message_of([&] { pack(source_, folder_ / "full.npy", {}); }, Fault::Io);
  limit_file_size(before.rlim_cur);
  EXPECT_TRUE(has(message, "cannot write")) << message;
  EXPECT_FALSE(fs::exists(folder_ / "full.npy"));
  EXPECT_EQ(files("*"), 1) << "more than the source";
}

TEST_F(Pack, DoesNotTakeShardsOfAnEarlierPack) {
  PackOptions options;
  options.shard_samples = 10;
  pack(slice(source_, 50, 50), folder_ / "p.npy", options);
  const auto later = fs::last_write_time(folder_ / "p-00000.npy") + std::chrono::seconds(10);
  message_of([&] { pack(std::make_shared<Torn>(source_), folder_ / "p.npy", options); }, Fault::Io);
  // Clocks of file systems tick in milliseconds: what was written just now is made younger.
  ASSERT_TRUE(fs::exists(folder_ / "p.npy.packing"));
  fs::last_write_time(folder_ / "p.npy.packing", later);
  EXPECT_EQ(pack(source_, folder_ / "p.npy", options).shards_found, 0);
  expect_same(*open(folder_ / "p-*.npy"), *source_);
}

/// What a pack to `name` says where files may grow to so many bytes only.
std::string message_when_full(const DatasetPtr& source, const std::string& path, rlim_t bytes) {
  const rlimit before = limit_file_size(bytes);
  const auto message = message_of([&] { pack(source, path, {}); }, Fault::Io);
  limit_file_size(before.rlim_cur);
  return message;
}

TEST_F(Pack, AFullDiskIsNamedWithTheFileAndARemedy) {
  std::vector<std::string> names = {"x.npz"};
#if LOCKSTEP_HAS_LMDB
  names.insert(names.end(), {"x.lmdb", "x.mdb"});
#endif
#if LOCKSTEP_HAS_HDF5
  names.emplace_back("x.h5");
#endif
  const auto large = open("blobs:samples=40000,dims=16");
  for (const auto& name : names) {
    for (const rlim_t bytes : {10'000, 1'000'000}) {
      const auto message = message_when_full(large, folder_ / name, bytes);
      EXPECT_TRUE(has(message, "cannot write " + folder_ / name + ": File too large; make room there")) << message;
      EXPECT_FALSE(has(message, ".part")) << message;
    }
  }
  const fs::directory_iterator left(folder_ / "");
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "more than the source";
}

TEST_F(Pack, ThatWasRefusedIsTriedAgainWithOtherSettings) {
  PackOptions options;
  options.write.compression = "deflate";
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "x.npy", options); }, Fault::Usage), "npz and hdf5 can"));
  pack(source_, folder_ / "x.npy", {});
  expect_same(*open(folder_ / "x.npy"), *source_);
}

TEST_F(Pack, RefusedLeavesNothing) {
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "x.txt", {}); }, Fault::Usage), "text"));
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "x.bin", {}); }, Fault::Usage), "use npy"));
  const fs::directory_iterator left(folder_ / "");
  EXPECT_EQ(std::distance(begin(left), end(left)), 1) << "more than the source";
}

TEST_F(Pack, ReadsMoreShardsThanMayBeOpen) {
  PackOptions options;
  options.shard_samples = 1;
  pack(source_, folder_ / "part.tar", options);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few = {64, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  expect_same(*open(folder_ / "part-*.tar"), *source_);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(Pack, NamesFilesAndFormats) {
  EXPECT_EQ(with_suffix("a/b.tar", "train"), "a/b-train.tar");
  EXPECT_EQ(with_suffix("b.csv.gz", "3"), "b-3.csv.gz");
  EXPECT_EQ(with_suffix("a.b/c.d.tgz", "3"), "a.b/c.d-3.tgz");
  EXPECT_EQ(with_suffix("a.b/c", "3"), "a.b/c-3");
  EXPECT_TRUE(has(message_of([&] { pack(source_, folder_ / "x.juggle", {}); }, Fault::Usage), "known extensions:"));
  for (const std::string name : {"x.tgz", "x.tar.zst"}) {
    const auto message = message_of([&] { pack(source_, folder_ / name, {}); }, Fault::Usage);
    EXPECT_TRUE(has(message, name + " would be compressed as a whole")) << message;
    EXPECT_TRUE(has(message, "write " + folder_ / "x.tar" + " and")) << message;
  }
  PackOptions options;
  options.fields = {"value"};
  EXPECT_TRUE(
      has(message_of([&] { pack(source_, folder_ / "x.npy", options); }, Fault::Usage), "did you mean 'values'?"));
}

}  // namespace
}  // namespace lockstep::data
