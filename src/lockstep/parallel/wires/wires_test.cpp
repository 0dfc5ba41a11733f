// Every wire: sums within what it promises, alike on all ranks, with fewer bytes.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {
namespace {

using comm::Collective;
using comm::Communicator;
using comm::testing::on_ranks;
using comm::testing::Ranks;

std::unique_ptr<Wire> make(const std::string& settings) {
  const Config recipe = Config::from_text("[wire]\n" + settings);
  auto wire = make_wire(recipe, "wire");
  recipe.finish();
  return wire;
}

/// Different on every rank, place and step.
torch::Tensor gradients(int rank, int step, std::int64_t count, torch::ScalarType type = torch::kFloat) {
  const auto places = torch::arange(count, torch::kDouble);
  return ((places * (0.37 + rank) + step).sin() * (1 + 0.1 * rank)).to(type);
}

torch::Tensor sum_of(const Communicator& group, int step, std::int64_t count) {
  auto sum = torch::zeros({count}, torch::kDouble);
  for (int rank = 0; rank < group.size(); ++rank) sum += gradients(rank, step, count, torch::kDouble);
  return sum;
}

torch::Tensor travel(Wire& wire, Communicator& group, const torch::Tensor& mine) {
  wire.start(group, 0, mine);
  wire.finish(group);
  const std::string bytes(static_cast<const char*>(mine.const_data_ptr()), mine.nbytes());
  for (const auto& other : group.gather_bytes(bytes)) EXPECT_EQ(other, bytes) << "ranks differ";
  return mine.to(torch::kDouble);
}

double largest(const torch::Tensor& tensor) { return tensor.abs().max().item<double>(); }

class EveryGroup : public testing::TestWithParam<Ranks> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryGroup, testing::ValuesIn(comm::testing::cases()));

constexpr std::int64_t kSizes[] = {1, 5, 256, 1000, 70'001};

TEST_P(EveryGroup, SumsWithinThePrecisionOfTheFormat) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::int64_t count : kSizes) {
      for (const auto type : {torch::kFloat, torch::kDouble}) {
        const auto sum = sum_of(group, 0, count);
        const double sizes = 1 + 0.1 * group.size();  // no gradient is larger
        // Every addend is rounded once and the sum once, to 8 and 11 bits.
        for (const auto& [name, unit] : {std::pair("bf16", 0x1p-8), std::pair("fp16", 0x1p-11)}) {
          const auto wire = make(std::string("name = '") + name + "'");
          const auto result = travel(*wire, group, gradients(group.rank(), 0, count, type));
          EXPECT_LE(largest(result - sum), unit * (2 * group.size() * sizes)) << name << ' ' << count;
        }
        // Half a step of 1 / 127 of the largest of the block, for every addend and for the sum.
        const auto wire = make("name = 'int8'\nblock = 64");
        const auto result = travel(*wire, group, gradients(group.rank(), 0, count, type));
        EXPECT_LE(largest(result - sum), 0.501 / 127 * 2 * group.size() * sizes) << count;
        // All of them is no loss at all.
        const auto all = make("name = 'topk'\nratio = 1.0");
        EXPECT_LE(largest(travel(*all, group, gradients(group.rank(), 0, count, type)) - sum),
                  type == torch::kFloat ? 1e-6 * group.size() * sizes : 1e-14 * group.size() * sizes);
      }
    }
  });
}

TEST_P(EveryGroup, SendsLaterWhatItLost) {
  on_ranks(GetParam(), [](Communicator& group) {
    constexpr std::int64_t kCount = 1000;
    for (const std::string name : {"name = 'int8'", "name = 'topk'\nratio = 0.1"}) {
      const auto wire = make(name);
      auto sent = torch::zeros({kCount}, torch::kDouble), wanted = torch::zeros({kCount}, torch::kDouble);
      for (int step = 0; step < 30; ++step) {
        wanted += sum_of(group, step, kCount);
        sent += travel(*wire, group, gradients(group.rank(), step, kCount, torch::kDouble));
      }
      EXPECT_GT(largest(sent - wanted), 1e-6) << name;
      // Nothing new comes: what was lost arrives, a tenth at a time or with ever smaller scales.
      for (int step = 0; step < 12; ++step) {
        sent += travel(*wire, group, torch::zeros({kCount}, torch::kDouble));
      }
      EXPECT_LT(largest(sent - wanted), 1e-12 * 30 * group.size()) << name;
    }
  });
}

TEST_P(EveryGroup, ForgetsWhatItLost) {
  on_ranks(GetParam(), [](Communicator& group) {
    constexpr std::int64_t kCount = 1000;
    for (const std::string name : {"name = 'bf16'", "name = 'int8'", "name = 'topk'\nratio = 0.1"}) {
      const auto wire = make(name);
      wire->forget();  // nothing yet
      travel(*wire, group, gradients(group.rank(), 0, kCount, torch::kDouble));
      wire->forget();
      EXPECT_EQ(largest(travel(*wire, group, torch::zeros({kCount}, torch::kDouble))), 0) << name;
    }
  });
}

TEST_P(EveryGroup, SendsOnlyTheLargest) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto wire = make("name = 'topk'\nratio = 0.2");
    auto mine = torch::zeros({10});
    mine[3] = -5.0 - group.rank();
    mine[group.rank() % 3] = 2;
    mine[9] = 0.5;
    const auto first = travel(*wire, group, mine);
    EXPECT_EQ(first[3].item<double>(), -5.0 * group.size() - group.size() * (group.size() - 1) / 2.0);
    EXPECT_EQ(first[9].item<double>(), 0);
    // What was left waits for its turn.
    EXPECT_EQ(travel(*wire, group, torch::zeros({10}))[9].item<double>(), 0.5 * group.size());
  });
}

TEST_P(EveryGroup, LetsWhatIsNotFiniteBeSeenOnce) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::string name : {"name = 'bf16'", "name = 'fp16'", "name = 'int8'", "name = 'topk'\nratio = 0.1"}) {
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        const auto wire = make(name);
        auto mine = gradients(group.rank(), 0, 500);
        if (group.rank() == group.size() - 1) mine[77] = bad;
        const auto result = travel(*wire, group, mine);
        EXPECT_FALSE(std::isfinite(result[77].item<double>())) << name;
        EXPECT_EQ(torch::isfinite(result).sum().item<std::int64_t>(), 499) << name;
        // The next step is as sound as ever.
        EXPECT_TRUE(torch::isfinite(travel(*wire, group, gradients(group.rank(), 1, 500))).all().item<bool>()) << name;
      }
      // More of them than travel.
      const auto wire = make(name);
      const auto all = travel(*wire, group, torch::full({500}, NAN));
      EXPECT_FALSE(torch::isfinite(all).all().item<bool>()) << name;
      EXPECT_TRUE(torch::isfinite(travel(*wire, group, gradients(group.rank(), 1, 500))).all().item<bool>()) << name;
    }
  });
}

TEST_P(EveryGroup, TakesNumbersAtTheEndsOfTheirRange) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto wire = make("name = 'int8'\nblock = 4");
    const auto result = travel(*wire, group, torch::tensor({0.0, 0.0, 0.0, 0.0, 1e-42, 0.0, 0.0, 0.0, 1e30, 1.0}));
    EXPECT_EQ(largest(result.slice(0, 0, 8)), 0);  // too small to have a scale
    EXPECT_NEAR(result[8].item<double>(), 1e30 * group.size(), 1e30 * group.size() / 100);
    const auto huge = travel(*make("name = 'int8'"), group, torch::full({3}, 1e300, torch::kDouble));
    EXPECT_TRUE(torch::isfinite(huge).all().item<bool>());
  });
}

/// Bytes of all collectives that this rank has taken part in.
std::int64_t bytes(const Communicator& group) {
  std::int64_t sum = 0;
  for (const auto kind : {Collective::AllReduce, Collective::AllGather, Collective::AllToAll}) {
    sum += group.statistics(kind).bytes;
  }
  return sum;
}

TEST(Wires, MoveFewerBytes) {
  on_ranks({4}, [](Communicator& group) {
    constexpr std::int64_t kCount = 1 << 16;
    const auto moved = [&](const std::string& name) {
      const auto wire = make(name);
      const std::int64_t before = bytes(group);
      wire->start(group, 0, gradients(group.rank(), 0, kCount));
      wire->finish(group);
      return bytes(group) - before;
    };
    // An all-reduce moves its bytes twice, to the owners of slices and back; all_to_all and all_gather once each.
    EXPECT_EQ(moved("name = 'fp16'"), 2 * kCount);
    EXPECT_EQ(moved("name = 'bf16'"), 2 * kCount);
    EXPECT_EQ(moved("name = 'int8'"), 2 * (kCount + kCount / 256 * 4));
    EXPECT_EQ(moved("name = 'topk'\nratio = 0.01"), 4 * 655 * (4 + 4));
  });
}

TEST(Wires, AreOfTheEngine) {
  for (const std::string name :
       {"name = 'bf16'", "name = 'fp16'", "name = 'int8'\nblock = 16", "name = 'topk'\nratio = 1.0"}) {
    on_ranks({3}, [&name](Communicator& group) {
      const auto one = torch::zeros({40, 10}).requires_grad_(), other = torch::zeros({7}).requires_grad_();
      DataParallel engine({{"one", one}, {"other", other}}, group,
                          {.buckets = {.first_bytes = 64, .bytes = 64}, .wire = make(name)});
      for (int step = 0; step < 4; ++step) {
        engine.drop_gradients();
        const auto slope = gradients(group.rank(), step, 400).view({40, 10});
        if (group.rank() != 1) ((one * slope).sum() + (other * 3).sum()).backward();
        engine.finish();
        const auto wanted = (gradients(0, step, 400) + gradients(2, step, 400)).view({40, 10});
        EXPECT_LE(largest(one.grad() - wanted), 0.1) << name;
        EXPECT_LE(largest(other.grad() - 6), 0.1) << name;
        const bool rounds = !name.starts_with("name = 'topk'");
        EXPECT_EQ(largest(one.grad() - wanted) > 1e-6, rounds) << name << " in step " << step;
      }
      engine.check_equal();
    });
  }
}

TEST(Wires, AreRefusedWhereTheyMakeNoSense) {
  const auto message = [](const std::string& settings) -> std::string {
    try {
      (void)make(settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message("name = 'in8'").find("did you mean 'int8'"), std::string::npos);
  EXPECT_NE(message("name = 'int8'\nblock = 6").find("wire.block = 6"), std::string::npos);
  EXPECT_NE(message("name = 'topk'\nratio = 0.0").find("wire.ratio = 0"), std::string::npos);
  EXPECT_NE(message("name = 'topk'\nratio = 1.5").find("up to 1"), std::string::npos);
  EXPECT_NE(message("name = 'bf16'\nblock = 16").find("unknown key 'wire.block'"), std::string::npos);
  EXPECT_EQ(make("name = 'none'"), nullptr);
  on_ranks({2}, [](Communicator& group) {
    const auto weight = torch::zeros({3}).requires_grad_();
    EXPECT_THROW(DataParallel({{"weight", weight}}, group, {.op = comm::ReduceOp::Avg, .wire = make("name = 'fp16'")}),
                 Error);
  });
}

}  // namespace
}  // namespace lockstep::parallel
