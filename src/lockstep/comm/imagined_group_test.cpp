#include "lockstep/comm/imagined_group.h"

#include <numeric>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/testing.h"

namespace lockstep::comm {
namespace {

TEST(ImaginedGroup, OthersBringNothing) {
  const auto group = imagine_group(4);
  EXPECT_EQ(group->size(), 4);
  EXPECT_EQ(group->rank(), 0);
  for (const std::int64_t elements : {3, 1 << 20}) {  // on this thread and on that of communication
    const at::Tensor values = at::full({elements}, 2.5);
    group->all_reduce_(values, ReduceOp::Sum).wait();
    EXPECT_TRUE(at::equal(values, at::full({elements}, 2.5)));
  }
}

TEST(ImaginedGroup, OthersHaveWhatThisRankHas) {
  const auto group = imagine_group(3);
  const std::vector<std::int64_t> own{7, 9};
  EXPECT_EQ(gather_values(*group, own), (std::vector<std::int64_t>{7, 9, 7, 9, 7, 9}));
  const at::Tensor part = at::empty({2}, at::kLong);
  group->reduce_scatter(part, at::arange(6, at::kLong), ReduceOp::Sum).wait();
  EXPECT_TRUE(at::equal(part, at::arange(2, at::kLong)));
}

TEST(ImaginedGroup, CountsWhatWouldTravel) {
  const auto group = imagine_group(2);
  group->all_reduce_(at::zeros({100}), ReduceOp::Sum).wait();
  EXPECT_EQ(group->statistics(Collective::AllReduce).bytes, 400);
}

TEST(ImaginedGroup, HasNobodyToTalkTo) {
  const auto group = imagine_group(2);
  EXPECT_NE(test::message_of([&] { group->send(at::zeros({1}), 1).wait(); }, Fault::Internal).find("only imagined"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::comm
