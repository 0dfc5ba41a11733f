#include "lockstep/ml/own_rows.h"

#include <gtest/gtest.h>

#include "lockstep/ml/testing.h"

namespace lockstep::ml {
namespace {

TEST(OwnRows, AreSpokenOfSomeAtATimeAndEquallyOftenOnEveryRank) {
  // 80 MB in blocks of 1024 rows, on one rank of two.
  const at::Tensor x = at::arange(10'000 * 1024, at::kDouble).view({10'000, 1024});
  comm::testing::on_ranks({2}, [&](comm::Communicator& group) {
    const auto table = make_table(group, {.x = group.rank() == 0 ? x : x.slice(0, 0, 0)});
    std::vector<std::int64_t> rows;
    const at::Tensor said = said_of_rows(*table, [&](const at::Tensor& some) {
      rows.push_back(some.size(0));
      return some.select(1, 5).clone();
    });
    EXPECT_EQ(rows, group.rank() == 0 ? (std::vector<std::int64_t>{8192, 1808}) : (std::vector<std::int64_t>{0, 0}));
    EXPECT_TRUE(at::equal(said, own_x(*table).select(1, 5)));
  });
}

}  // namespace
}  // namespace lockstep::ml
