#include "lockstep/data/cache.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/comm/thread_ranks.h"
#include "lockstep/data/cache_memory.h"
#include "lockstep/data/cached_file.h"
#include "lockstep/data/holders.h"
#include "lockstep/data/index_cache.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/npy_header.h"
#include "lockstep/data/pack.h"
#include "lockstep/data/sample_wire.h"
#include "lockstep/data/testing.h"
#include "lockstep/data/transformed.h"

namespace lockstep::data {
namespace {

using comm::Communicator;

std::string counted_npy(std::int64_t rows, std::int64_t columns) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows * columns));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::string bytes = npy_header(c10::ScalarType::Int, {rows, columns});
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t));
  return bytes;
}

TEST(CachedFile, ReadsEachPieceOnceForAllThreads) {
  const Folder folder;
  std::string bytes(5'000'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 251);
  const std::string path = folder.write("file", bytes);
  const std::vector<Interval> intervals = {{100, 3'000'000}, {4'000'000, 4'000'010}};
  const auto memory = private_memory(cache_bytes(intervals), "");
  const auto file = cached_file(path, intervals, memory);
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      Scratch scratch;
      for (std::uint64_t offset = 50; offset + 7000 < bytes.size(); offset += 6001) {
        scratch.clear();
        const std::uint64_t place = number % 2 == 0 ? offset : bytes.size() - 7000 - offset;
        ASSERT_EQ(as_text(file->read(place, 7000, scratch)), std::string_view(bytes).substr(place, 7000));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  Scratch scratch;
  file->read(4'000'000, 10, scratch);
  // What is in the cache is read from there for ever after.
  folder.write("file", std::string(bytes.size(), 'x'));
  EXPECT_EQ(as_text(file->read(1'048'000, 2000, scratch)), std::string_view(bytes).substr(1'048'000, 2000));
  EXPECT_EQ(as_text(file->read(4'000'000, 10, scratch)), std::string_view(bytes).substr(4'000'000, 10));
  EXPECT_EQ(as_text(file->read(3'500'000, 3, scratch)), "xxx");
}

TEST(SampleWire, KeepsEveryField) {
  Sample sample;
  sample.clear(3);
  const std::vector<float> numbers = {1, 2, 3, 4};
  const std::string text = "word";
  sample.values[0] = value_of(numbers, {2, 2});
  sample.values[1].missing = true;
  sample.values[2] = value_of(text);
  const std::size_t length = wire_bytes(sample);
  std::string bytes(2 * length, '\0');
  for (const std::size_t place : {std::size_t{0}, length})
    put_sample(reinterpret_cast<std::byte*>(bytes.data()) + place, sample);
  Bytes rest = as_bytes(bytes);
  Sample again;
  take_sample(rest, again);
  EXPECT_EQ(again.values[0].shape, (Shape{2, 2}));
  EXPECT_EQ(numbers_of<float>(again.values[0]), numbers);
  EXPECT_TRUE(again.values[1].missing);
  EXPECT_EQ(as_text(again.values[2].bytes), text);
  EXPECT_EQ(rest.size(), bytes.size() / 2);
  Bytes torn = as_bytes(bytes).first(bytes.size() / 2 - 1);
  EXPECT_TRUE(has(message_of([&] { take_sample(torn, again); }, Fault::Internal), "torn"));
}

/// Of `samples`, in blocks of so many rows each for every column.
Index in_blocks(std::int64_t samples, const std::vector<std::uint64_t>& rows) {
  Index index;
  index.samples = samples;
  index.files = {{"x", 1 << 30, 1 << 30, 0, 0}};
  std::uint64_t place = 0;
  for (const auto rows_per_block : rows) {
    Column column;
    column.layout = Column::Layout::Blocks;
    column.rows_per_block = rows_per_block;
    for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(samples); row += rows_per_block) {
      column.extents.push_back({0, place, 10'000});
      place += 10'000;
    }
    index.columns.push_back(std::move(column));
  }
  return index;
}

void expect_one_holder_each(const Holders& holders, std::int64_t samples) {
  std::int64_t next = 0;
  for (int rank = 0; rank < holders.ranks(); ++rank) {
    const auto held = holders.held_by(rank);
    ASSERT_EQ(held.first, next);
    next = held.end;
    for (std::int64_t id = held.first; id < held.end; ++id) ASSERT_EQ(holders.holder_of(id), rank);
  }
  ASSERT_EQ(next, samples);
}

/// The place of all files' samples, run after run.
std::vector<std::int64_t> ends_of(const Holders& holders) {
  std::vector<std::int64_t> ends;
  for (int rank = 0; rank < holders.ranks(); ++rank) ends.push_back(holders.held_by(rank).end);
  return ends;
}

TEST(Holders, EverySampleHasOne) {
  for (const std::int64_t samples : {1, 2, 3, 7, 100, 1001}) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      expect_one_holder_each(Holders(samples, ranks), samples);
      for (const std::uint64_t rows : {1, 2, 30, 5000}) {
        const std::vector<Index> files = {in_blocks(samples, {rows}), in_blocks(3, {2}), in_blocks(samples, {rows, 7})};
        expect_one_holder_each(Holders(files, ranks), 2 * samples + 3);
      }
    }
  }
}

TEST(Holders, RunsEndWhereBlocksDo) {
  EXPECT_EQ(ends_of(Holders(100, 4)), (std::vector<std::int64_t>{25, 50, 75, 100}));
  EXPECT_EQ(ends_of(Holders({in_blocks(100, {10})}, 4)), (std::vector<std::int64_t>{20, 50, 70, 100}));
  // Blocks begin anew in each file.
  EXPECT_EQ(ends_of(Holders({in_blocks(45, {10}), in_blocks(55, {10})}, 4)),
            (std::vector<std::int64_t>{20, 45, 75, 100}));
  // A single block is somebody's as a whole.
  EXPECT_EQ(ends_of(Holders({in_blocks(100, {100})}, 3)), (std::vector<std::int64_t>{0, 100, 100}));
  EXPECT_EQ(ends_of(Holders({in_blocks(90, {90}), in_blocks(90, {90})}, 2)), (std::vector<std::int64_t>{90, 180}));
}

TEST(Holders, ColumnsAgreeWhereRanksStayBusy) {
  EXPECT_EQ(ends_of(Holders({in_blocks(120, {4, 6})}, 3)), (std::vector<std::int64_t>{36, 84, 120}));
  // The labels' one block would leave all to one rank, so two read it and the images decide.
  EXPECT_EQ(ends_of(Holders({in_blocks(120, {7, 120})}, 2)), (std::vector<std::int64_t>{63, 120}));
}

class Cached : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

/// Each byte of the samples is held by one of the ranks.
void expect_read_once(const std::vector<std::string>& paths, int ranks) {
  std::vector<Index> files;
  for (const auto& path : paths) files.push_back(index_of(path, {}));
  const Holders holders(files, ranks);
  std::int64_t before = 0;
  for (const auto& index : files) {
    std::vector<Interval> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto held = holders.held_by(rank);
      const HeldSamples here = {std::clamp<std::int64_t>(held.first - before, 0, index.samples),
                                std::clamp<std::int64_t>(held.end - before, 0, index.samples)};
      const auto intervals = intervals_of(index, here);
      all.insert(all.end(), intervals.at(0).begin(), intervals.at(0).end());
    }
    std::uint64_t held_bytes = 0, bytes = 0;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i > 0) {
        ASSERT_LE(all[i - 1].end, all[i].begin) << "read by two ranks";
      }
      held_bytes += all[i].end - all[i].begin;
    }
    const Column& column = index.columns.at(0);
    for (const auto& extent : column.extents) bytes += extent.length;
    // Of chunks that are read as they lie, the last one may be longer than its rows.
    if (column.layout == Column::Layout::Chunks) bytes = column.row_bytes * static_cast<std::uint64_t>(index.samples);
    EXPECT_GE(held_bytes, bytes) << "read by none";
    before += index.samples;
  }
}

/// Of 101 samples.
void expect_same_batches(const std::string& source, const char* mode, int ranks) {
  const auto plain = open(source);
  OrderOptions how;
  how.samples = plain->size();
  how.seed = 8;
  const std::shared_ptr<const Order> order = make_order("shuffle", how);
  std::vector<std::int64_t> seen(static_cast<std::size_t>(2 * 101));
  comm::run_ranks(ranks, [&](Communicator& world) {
    const auto set = open_cached(source, {}, {.cache = mode}, world);
    const auto group = world.duplicate();
    LoaderOptions options;
    options.batch = 7;
    options.share = {world.rank(), world.rank() + 1, ranks};
    options.threads = 2;
    if (std::string(mode) == "cluster") options.exchange = group.get();
    Loader loader(set, order, options);
    Sample wanted;
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (const Batch* batch = loader.next()) {
        const auto& rows = (*batch)["values"];
        for (std::int64_t row = 0; row < batch->count(); ++row) {
          const auto id = batch->ids[static_cast<std::size_t>(row)];
          plain->read(id, wanted);
          ASSERT_EQ(rows[row].sum().item<std::int64_t>(), [&] {
            const auto numbers = numbers_of<std::int32_t>(wanted.values[0]);
            return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
          }());
          seen[static_cast<std::size_t>(epoch * 101 + batch->position + batch->first + row)] = id + 1;
        }
      }
    }
  });
  for (std::int64_t i = 0; i < 2 * 101; ++i)
    ASSERT_EQ(seen[static_cast<std::size_t>(i)], order->at(i / 101, i % 101) + 1);
}

TEST_P(Cached, GivesTheSameBatchesAsWithoutCache) {
  const auto& [mode, ranks] = GetParam();
  const Folder folder;
  folder.write("a.npy", counted_npy(61, 5));
  folder.write("b.npy", counted_npy(40, 5));
  expect_same_batches(folder / "?.npy", mode, ranks);
}

TEST_P(Cached, GivesTheSameBatchesOfBlocks) {
  const auto& [mode, ranks] = GetParam();
  const Folder folder;
  PackOptions options;
  options.write.compression = "deflate";
  pack(open(folder.write("a.npy", counted_npy(61, 500))), folder / "a.npz", options);
  pack(open(folder.write("b.npy", counted_npy(40, 500))), folder / "b.npz", options);
  ASSERT_EQ(index_of(folder / "a.npz", {}).columns.at(0).layout, Column::Layout::Blocks);
  expect_same_batches(folder / "?.npz", mode, ranks);
  expect_read_once({folder / "a.npz", folder / "b.npz"}, ranks);
}

#if LOCKSTEP_HAS_HDF5
// Rows of 16 KiB, so that ranks share chunks.
TEST_P(Cached, GivesTheSameBatchesOfChunks) {
  const auto& [mode, ranks] = GetParam();
  const Folder folder;
  pack(open(folder.write("a.npy", counted_npy(101, 4096))), folder / "a.h5", {});
  ASSERT_EQ(index_of(folder / "a.h5", {}).columns.at(0).layout, Column::Layout::Chunks);
  expect_same_batches(folder / "a.h5", mode, ranks);
  expect_read_once({folder / "a.h5"}, ranks);
}

TEST_P(Cached, GivesTheSameBatchesOfDeflatedChunks) {
  const auto& [mode, ranks] = GetParam();
  const Folder folder;
  PackOptions options;
  options.write.compression = "deflate";
  pack(open(folder.write("a.npy", counted_npy(101, 4096))), folder / "a.h5", options);
  ASSERT_EQ(index_of(folder / "a.h5", {}).columns.at(0).layout, Column::Layout::Blocks);
  expect_same_batches(folder / "a.h5", mode, ranks);
  expect_read_once({folder / "a.h5"}, ranks);
}
#endif

INSTANTIATE_TEST_SUITE_P(Modes, Cached,
                         testing::Combine(testing::Values("none", "node", "cluster"), testing::Values(1, 2, 3, 5)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

std::unique_ptr<Loader> cluster_loader(const DatasetPtr& set, Communicator& group) {
  LoaderOptions options;
  options.batch = 9;
  options.share = {group.rank(), group.rank() + 1, group.size()};
  options.exchange = &group;
  OrderOptions how;
  how.samples = set->size();
  return std::make_unique<Loader>(set, make_order("shuffle", how), options);
}

TEST(Cluster, LoadersEndTogetherAtAnyMoment) {
  const Folder folder;
  const std::string source = folder.write("a.npy", counted_npy(1000, 2));
  for (int batches = 0; batches < 4; ++batches) {
    comm::run_ranks(3, [&](Communicator& world) {
      const auto set = open_cached(source, {}, {.cache = "cluster"}, world);
      const auto group = world.duplicate();
      const auto loader = cluster_loader(set, *group);
      for (int i = 0; i < batches; ++i) loader->next();
      std::this_thread::sleep_for(std::chrono::milliseconds(10 * world.rank()));
    });
  }
}

/// Remembers what is brought in, and whether samples are made by who only reads ahead.
class Watched final : public Dataset {
 public:
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return 100; }
  void read(std::int64_t, Sample& sample) const override {
    std::array<char, 16> thread{};
    pthread_getname_np(pthread_self(), thread.data(), thread.size());
    if (std::string_view(thread.data()) == "lockstep-ahead") made_ahead = true;
    sample.clear(1);
    sample.values[0] = {sample.scratch.take(1), {1}, false};
  }
  void bring_in(std::int64_t index, Scratch&) const override {
    const std::lock_guard lock(mutex_);
    brought_in_.push_back(index);
  }
  std::string name(std::int64_t index) const override { return std::to_string(index); }
  const Holders* holders() const noexcept override { return &holders_; }
  std::vector<std::int64_t> brought_in() const {
    const std::lock_guard lock(mutex_);
    return brought_in_;
  }
  mutable std::atomic<bool> made_ahead = false;

 private:
  Schema schema_ = {{"x", Encoding::Values, c10::ScalarType::Byte, {}}};
  Holders holders_ = {100, 1};
  mutable std::mutex mutex_;
  mutable std::vector<std::int64_t> brought_in_;
};

TEST(Cluster, BytesAreBroughtInAsTheyAreWantedAndNoSampleIsMadeTwice) {
  const auto source = std::make_shared<Watched>();
  comm::run_ranks(1, [&](Communicator& world) {
    const auto group = world.duplicate();
    LoaderOptions options;
    options.batch = 9;
    options.share = {0, 1, 1};
    options.exchange = group.get();
    options.start = {0, 60};
    OrderOptions how;
    how.samples = 100;
    Loader loader(transformed(source, {"one_hot x classes=256"}), make_order("sequential", how), options);
    for (int i = 0; i < 1000 && source->brought_in().size() < 100; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    loader.next();
  });
  std::vector<std::int64_t> wanted(100);
  std::iota(wanted.begin(), wanted.begin() + 40, 60);
  std::iota(wanted.begin() + 40, wanted.end(), 0);
  EXPECT_EQ(source->brought_in(), wanted);
  EXPECT_FALSE(source->made_ahead);
}

/// Throws what nobody foresaw.
class Unforeseen final : public Dataset {
 public:
  const Schema& schema() const noexcept override { return schema_; }
  std::int64_t size() const noexcept override { return 100; }
  void read(std::int64_t, Sample&) const override { throw 42; }
  std::string name(std::int64_t index) const override { return std::to_string(index); }
  const Holders* holders() const noexcept override { return &holders_; }

 private:
  Schema schema_ = {{"x", Encoding::Values, c10::ScalarType::Byte, {1}}};
  Holders holders_ = {100, 1};
};

TEST(Cluster, ARankWithoutFurtherRoundsSaysSoAtEveryBatch) {
  comm::run_ranks(1, [&](Communicator& world) {
    const auto group = world.duplicate();
    const auto loader = cluster_loader(std::make_shared<Unforeseen>(), *group);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(loader->next(), int);
  });
}

TEST(Cluster, AnErrorOnOneRankIsWhatAllRead) {
  const Folder folder;
  const std::string source = folder.write("a.npy", counted_npy(1000, 2));
  const auto message = message_of([&] {
    comm::run_ranks(3, [&](Communicator& world) {
      const auto set = open_cached(source, {}, {.cache = "cluster"}, world);
      const auto group = world.duplicate();
      const auto loader = cluster_loader(set, *group);
      for (int i = 0; i < 100; ++i) {
        loader->next();
        if (world.rank() == 1 && i == 5) fail(Fault::Data, "label 11 of 10");
      }
    });
  });
  EXPECT_TRUE(has(message, "label 11 of 10")) << message;
}

TEST(Cluster, TransformsKeepWhoHoldsWhatAndOtherViewsAreRefused) {
  const auto with = [&](const std::function<DatasetPtr(DatasetPtr)>& view) {
    comm::run_ranks(3, [&](Communicator& world) {
      const auto set = view(open_cached("blobs:samples=100,classes=3", {}, {.cache = "cluster"}, world));
      const auto group = world.duplicate();
      const auto loader = cluster_loader(set, *group);
      std::int64_t rows = 0;
      while (const Batch* batch = loader->next()) rows += batch->count();
      EXPECT_GT(rows, 0);
    });
  };
  with([](DatasetPtr set) { return transformed(std::move(set), {"one_hot label classes=3"}); });
  const auto refused =
      message_of([&] { with([](DatasetPtr set) { return slice(std::move(set), 10, 50); }); }, Fault::Usage);
  EXPECT_TRUE(has(refused, "'lockstep pack'")) << refused;
}

TEST(Cluster, WhatIsGeneratedIsDividedToo) {
  comm::run_ranks(3, [&](Communicator& world) {
    const auto set = open_cached("blobs:samples=100", {}, {.cache = "cluster"}, world);
    const auto group = world.duplicate();
    const auto loader = cluster_loader(set, *group);
    const Batch* batch = loader->next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->count(), 3);
  });
}

TEST(Cache, RefusesWhatCannotBe) {
  const Folder folder;
  const std::string source = folder.write("a.npy", counted_npy(1000, 2));
  const auto refused = [&](const CacheOptions& cache) {
    return message_of([&] { comm::run_ranks(2, [&](Communicator& world) { open_cached(source, {}, cache, world); }); },
                      Fault::Usage);
  };
  EXPECT_TRUE(has(refused({.cache = "clustr"}), "did you mean 'cluster'?"));
  EXPECT_TRUE(has(refused({.cache = "node", .folder = "", .quota_bytes = 1000}), "quota is 1000 B"));
}

}  // namespace
}  // namespace lockstep::data
