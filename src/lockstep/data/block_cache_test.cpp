#include "lockstep/data/block_cache.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

constexpr std::size_t kBlockBytes = 1000;
constexpr std::uint64_t kRowsPerBlock = 10;

/// Reads all columns of rows one behind the other, as a data set does, and counts what is unpacked.
class Rows {
 public:
  Rows(std::size_t columns, std::size_t cache_bytes) : columns_(columns), cache_(cache_bytes, columns) {}

  void read(std::uint64_t row) {
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::uint64_t number = row / kRowsPerBlock;
      const auto block = cache_.get({column, number}, [&] {
        ++unpacked_;
        return std::string(kBlockBytes, name_of(column, number));
      });
      EXPECT_EQ(block->size(), kBlockBytes);
      EXPECT_EQ(block->front(), name_of(column, number));
    }
  }
  int unpacked() const { return unpacked_; }

 private:
  static char name_of(std::size_t column, std::uint64_t number) { return static_cast<char>(16 * number + column); }

  std::size_t columns_;
  BlockCache cache_;
  std::atomic<int> unpacked_ = 0;
};

TEST(BlockCache, KeepsABlockOfEveryColumn) {
  constexpr int kColumns = 12, kBlocks = 3;
  // Room for all of a row, for some, for none.
  for (const std::size_t bytes : {std::size_t{kColumns} * kBlockBytes, std::size_t{5} * kBlockBytes, std::size_t{0}}) {
    Rows rows(kColumns, bytes);
    for (std::uint64_t row = 0; row < kBlocks * kRowsPerBlock; ++row) rows.read(row);
    EXPECT_EQ(rows.unpacked(), kColumns * kBlocks) << bytes << " bytes";
  }
}

TEST(BlockCache, LetsTheOldestGo) {
  Rows rows(2, 4 * kBlockBytes);
  for (const std::uint64_t row : {0, 10, 0, 20}) rows.read(row);  // 10 goes, 0 was used after it
  EXPECT_EQ(rows.unpacked(), 6);
  rows.read(0);
  EXPECT_EQ(rows.unpacked(), 6);
  rows.read(10);
  EXPECT_EQ(rows.unpacked(), 8);
}

TEST(BlockCache, ThreadsUnpackABlockOnce) {
  constexpr int kColumns = 4, kBlocks = 4;
  Rows rows(kColumns, std::size_t{kColumns} * kBlocks * kBlockBytes);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (std::uint64_t row = 0; row < kBlocks * kRowsPerBlock; ++row) rows.read(row);
    });
  }
  threads.clear();
  EXPECT_EQ(rows.unpacked(), kColumns * kBlocks);
}

TEST(BlockCache, ThreadsShareTooLittleRoom) {
  Rows rows(3, 0);
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&rows, thread] {
      for (std::uint64_t row = 0; row < 200; ++row) rows.read((row * 7 + thread * 3) % (4 * kRowsPerBlock));
    });
  }
  threads.clear();
  EXPECT_GE(rows.unpacked(), 3 * 4);
}

TEST(BlockCache, WhoFailsLeavesItToTheNext) {
  BlockCache cache(kBlockBytes, 1);
  EXPECT_THROW(cache.get({0, 0}, []() -> std::string { throw std::runtime_error("torn"); }), std::runtime_error);
  EXPECT_EQ(*cache.get({0, 0}, [] { return std::string("whole"); }), "whole");
}

}  // namespace
}  // namespace lockstep::data
