// Tensors of more than 2^31 elements: no count on the way may be an int. Needs some
// gigabytes, so it has no label of those that run under the sanitizers.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/comm/thread_ranks.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t kElements = (std::int64_t{1} << 31) + 4'321;

double available_gb() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    double kib = 0;
    file >> kib;
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024e-9;
  }
  return 0;
}

class MoreThanInt : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Buffers, MoreThanInt, ::testing::Values(false, true),
                         [](const auto& buffers) { return buffers.param ? "staged" : "in_place"; });

TEST_P(MoreThanInt, ElementsAreReduced) {
  constexpr double kNeeded_gb = 12;
  if (available_gb() < kNeeded_gb) {
    GTEST_SKIP() << "needs " << kNeeded_gb << " GB of free memory, " << available_gb() << " are there";
  }
  // Places that a count cut to 32 bits, signed or not, would miss.
  const std::vector<std::int64_t> places = {
      0, 1, 4'320, (std::int64_t{1} << 30) + 1, (std::int64_t{1} << 31) - 1, std::int64_t{1} << 31, kElements - 1};
  run_ranks(2,
            [&](Communicator& group) {
              at::Tensor tensor = at::full({kElements}, group.rank() + 1, at::kChar);
              for (const auto place : places) tensor[place] = 50 + group.rank();
              group.all_reduce_(tensor, ReduceOp::Sum).wait();
              const auto* values = tensor.const_data_ptr<std::int8_t>();
              std::int64_t wrong = 0;
              for (std::int64_t i = 0; i < kElements; ++i) wrong += values[i] != 3;
              EXPECT_EQ(wrong, static_cast<std::int64_t>(places.size()));
              for (const auto place : places) EXPECT_EQ(values[place], 101) << place;

              tensor = tensor.view(at::kBool);
              tensor.fill_(false);
              tensor[kElements - 1 - group.rank()] = true;
              group.all_reduce_(tensor, ReduceOp::Max).wait();
              const auto* flags = tensor.const_data_ptr<bool>();
              std::int64_t set = 0;
              for (std::int64_t i = 0; i < kElements; ++i) set += flags[i] ? 1 : 0;
              EXPECT_EQ(set, 2);
              EXPECT_TRUE(flags[kElements - 1] && flags[kElements - 2]);
            },
            {.timeout_s = 120, .private_buffers = GetParam()});
}

}  // namespace
}  // namespace lockstep::comm
