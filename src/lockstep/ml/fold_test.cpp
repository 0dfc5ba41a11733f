#include "lockstep/ml/fold.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

using testing::blobs;
using testing::kRanksAndThreads;
using testing::with_table;

at::Tensor column_sums(const Table& table, int threads) {
  return fold(table, threads,
              {.name = "sums", .size = 3, .leaf = [](const Block& block, std::int64_t, double* sums, int) {
                 for (std::int64_t i = 0; i < block.rows * 3; ++i) sums[i % 3] += block.x<double>()[i];
               }});
}

TEST(Fold, HasTheSameBitsOnAnyNumberOfRanksAndThreads) {
  const auto x = blobs(70'001, 3, 4, 5) * 1e3;
  at::Tensor first;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      const auto sums = column_sums(table, threads);
      if (table.group().rank() == 0 && !first.defined()) first = sums;
      EXPECT_TRUE(at::equal(sums, first)) << table.group().size() << " ranks, " << threads << " threads";
    });
  }
  EXPECT_TRUE(at::allclose(first, x.sum(0), 1e-12));
}

TEST(Fold, CombinesInOrder) {
  // A combination that is not commutative: digits of block numbers.
  const auto x = blobs(9 * 8192 + 1, 1, 1);
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      const auto result = fold(table, threads,
                               {.name = "digits",
                                .size = 2,
                                .leaf =
                                    [](const Block&, std::int64_t number, double* digits, int) {
                                      digits[0] = static_cast<double>(number);
                                      digits[1] = 1;
                                    },
                                .combine =
                                    [](double* left, const double* right) {
                                      left[0] = left[0] * std::pow(10, right[1]) + right[0];
                                      left[1] += right[1];
                                    }});
      EXPECT_EQ(result[0].item<double>(), 123456789);
      EXPECT_EQ(result[1].item<double>(), 10);
    });
  }
}

constexpr std::int64_t kLarge = 150'000;  // doubles: more than 1 MiB

TEST(Fold, OfLargeResultsCombinesInOrder) {
  const auto x = blobs(9 * 8192 + 1, 1, 1);
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      const auto gathers = table.group().statistics(comm::Collective::AllGather).calls;
      const auto result = fold(table, threads,
                               {.name = "digits",
                                .size = kLarge,
                                .leaf =
                                    [](const Block&, std::int64_t number, double* digits, int) {
                                      EXPECT_EQ(*std::max_element(digits, digits + kLarge), 0);
                                      digits[0] = static_cast<double>(number);
                                      digits[kLarge - 1] = 1;
                                    },
                                .combine =
                                    [](double* left, const double* right) {
                                      left[0] = left[0] * std::pow(10, right[kLarge - 1]) + right[0];
                                      left[kLarge - 1] += right[kLarge - 1];
                                    }});
      ASSERT_EQ(result.numel(), kLarge);
      EXPECT_EQ(result[0].item<double>(), 123456789);
      EXPECT_EQ(result[kLarge - 1].item<double>(), 10);
      // No rank holds the results of all ranks.
      EXPECT_EQ(table.group().statistics(comm::Collective::AllGather).calls, gathers);
    });
  }
}

TEST(Fold, OfLargeResultsHasTheBitsOfSmallOnes) {
  const auto x = blobs(70'001, 3, 4, 5) * 1e3;
  for (const auto& [ranks, threads] : kRanksAndThreads) {
    with_table(ranks, {x}, [&, threads = threads](const Table& table) {
      const auto large =
          fold(table, threads,
               {.name = "sums", .size = kLarge, .leaf = [](const Block& block, std::int64_t, double* sums, int) {
                  for (std::int64_t i = 0; i < block.rows * 3; ++i) sums[i % 3] += block.x<double>()[i];
                }});
      EXPECT_TRUE(at::equal(large.slice(0, 0, 3), column_sums(table, threads)));
    });
  }
}

TEST(Fold, OfLargeResultsKeepsFew) {
  constexpr int kThreads = 8;
  with_table(1, {blobs(256 * 8192, 1, 1)}, [&](const Table& table) {
    ASSERT_EQ(table.plan().blocks(), 256);
    std::mutex mutex;
    std::set<const double*> results;
    fold(table, kThreads, {.name = "few", .size = kLarge, .leaf = [&](const Block&, std::int64_t, double* result, int) {
                             const std::lock_guard lock(mutex);
                             results.insert(result);
                           }});
    // One for each thread and each level between two threads; a result for each of 8 pieces of a thread is more.
    EXPECT_LT(results.size(), 8U * kThreads);
  });
}

TEST(FoldAll, GivesWhatEachGives) {
  const auto x = blobs(50'000, 3, 2);
  with_table(3, {x}, [&](const Table& table) {
    const Fold rows{.name = "rows", .size = 1, .leaf = [](const Block& block, std::int64_t, double* count, int) {
                      *count = static_cast<double>(block.rows);
                    }};
    const Fold last{
        .name = "last",
        .size = 9,
        .leaf = [](const Block&, std::int64_t number, double* of, int) { of[8] = static_cast<double>(number); },
        .combine = [](double* left, const double* right) { left[8] = right[8]; }};
    const auto all = fold_all(table, 2, "both", {rows, last});
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].item<double>(), 50'000);
    ASSERT_EQ(all[1].numel(), 9);
    EXPECT_EQ(all[1][8].item<double>(), 6);
  });
}

TEST(Fold, ThrowsWhatALeafThrows) {
  with_table(1, {blobs(50'000, 3, 2)}, [](const Table& table) {
    EXPECT_THROW(fold(table, 3,
                      {.name = "bad",
                       .size = 1,
                       .leaf =
                           [](const Block&, std::int64_t number, double*, int) {
                             if (number == 4) fail(Fault::Data, "block 4");
                           }}),
                 Error);
  });
}

TEST(OfAllBlocks, AreByNumber) {
  for (const int ranks : {1, 3, 8}) {
    with_table(ranks, {blobs(50'000, 3, 2)}, [](const Table& table) {
      const auto rows = of_all_blocks(table, 2, 2, [](const Block& block, std::int64_t number, double* result) {
        result[0] = static_cast<double>(number);
        result[1] = static_cast<double>(block.rows);
      });
      ASSERT_EQ(rows.size(), 14U);
      for (std::size_t block = 0; block < 7; ++block) EXPECT_EQ(rows[2 * block], static_cast<double>(block));
      EXPECT_EQ(rows[13], 50'000 - 6 * 8192);
    });
  }
}

class CountedRows final : public SweepObserver {
 public:
  void begin(const char* name, std::int64_t rows) override {
    EXPECT_FALSE(open_);
    open_ = true;
    seen_ = 0;
    name_ = name;
    rows_ = rows;
  }
  void add(std::int64_t rows) override { seen_ += rows; }
  void end() override {
    EXPECT_TRUE(open_);
    open_ = false;
    EXPECT_EQ(seen_, rows_);
    ++passes;
  }

  int passes = 0;
  std::string name_;
  std::int64_t rows_ = 0;

 private:
  bool open_ = false;
  std::atomic<std::int64_t> seen_ = 0;
};

TEST(Fold, TellsHowFarItIs) {
  comm::testing::on_ranks({2}, [](comm::Communicator& group) {
    const auto seen = std::make_shared<CountedRows>();
    const auto table = make_table(group, {.x = blobs(50'000, 3, 2), .observer = seen});
    const Fold nothing{.name = "nothing", .size = 1, .leaf = [](const Block&, std::int64_t, double*, int) {}};
    fold(*table, 3, nothing);
    EXPECT_EQ(seen->passes, 1);
    EXPECT_EQ(seen->name_, "nothing");
    EXPECT_EQ(seen->rows_, table->own_rows());
    of_all_blocks(*table, 3, 1, [](const Block&, std::int64_t, double*) {});
    check_finite(*table);
    EXPECT_EQ(seen->passes, 3);
  });
}

}  // namespace
}  // namespace lockstep::ml
