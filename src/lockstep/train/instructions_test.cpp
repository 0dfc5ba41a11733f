#include "lockstep/train/instructions.h"

#include <cstdlib>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"

namespace lockstep::train {
namespace {

TEST(Instructions, OfThisHostPassItsOwnCheck) {
  const std::string best = pinned_instructions("best");
  for (const auto& [name, value] : environment_of(best)) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_NO_THROW(check_instructions(best));
  unsetenv("MKL_CBWR");
  EXPECT_THROW(check_instructions(best), Error);  // the libraries would do as they like
  EXPECT_EQ(pinned_instructions(best), best);
  EXPECT_EQ(pinned_instructions("any"), "any");
}

TEST(Instructions, OfAnotherMakerAreRefused) {
  const std::string best = pinned_instructions("best");
  const std::string other = best.starts_with("intel-") ? "amd-avx2" : "intel-avx2";
  try {
    check_instructions(other);
    FAIL() << "took " << other;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("pinned to the instructions " + other), std::string::npos) << error.what();
  }
  EXPECT_THROW(pinned_instructions("sse9"), Error);
}

TEST(Instructions, PinEveryLibrary) {
  for (const char* pinned : {"intel-avx512", "amd-avx2", "any"}) {
    std::set<std::string> names;
    for (const auto& [name, value] : environment_of(pinned)) names.insert(name);
    EXPECT_EQ(names, (std::set<std::string>{"ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_NUM_THREADS", "OMP_NUM_THREADS",
                                            "ONEDNN_MAX_CPU_ISA"}));
  }
  EXPECT_NE(environment_of("intel-avx512"), environment_of("intel-avx2"));
  EXPECT_NE(environment_of("intel-avx2"), environment_of("any"));
}

}  // namespace
}  // namespace lockstep::train
