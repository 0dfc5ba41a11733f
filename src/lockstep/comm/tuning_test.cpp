#include "lockstep/comm/tuning.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/comm/channel.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

TEST(Tuning, SurvivesJson) {
  Tuning tuning;
  tuning.doubling_bytes = 1;
  tuning.two_hop_bytes = 70'000;
  tuning.inline_bytes = 0;
  tuning.piece_bytes = 5 << 20;
  tuning.window_bytes = 64 << 10;
  const Tuning again = Tuning::from_json(tuning.json());
  EXPECT_EQ(again.json(), tuning.json());
  EXPECT_EQ(again.two_hop_bytes, 70'000U);
  EXPECT_EQ(again.inline_bytes, 0U);
}

TEST(Tuning, KeepsDefaultsForWhatIsMissingOrOdd) {
  const std::string defaults = Tuning{}.json();
  EXPECT_EQ(Tuning::from_json("{}").json(), defaults);
  EXPECT_EQ(Tuning::from_json(R"({"from a later version": {"deep": [1, 2]}})").json(), defaults);
  for (const char* value : {"-5", "1.5", "\"4096\"", "null", "[4096]", "true"}) {
    EXPECT_EQ(Tuning::from_json(std::string(R"({"piece_bytes": )") + value + "}").json(), defaults) << value;
  }
}

TEST(Tuning, StaysInsideTheLimits) {
  const Tuning low = Tuning::from_json(R"({"doubling_bytes": 0, "piece_bytes": 0, "window_bytes": 1})");
  EXPECT_EQ(low.doubling_bytes, 0U);
  EXPECT_EQ(low.piece_bytes, 4096U) << "a loop over pieces would not end";
  EXPECT_EQ(low.window_bytes, 4096U);
  const Tuning high =
      Tuning::from_json(R"({"window_bytes": 18446744073709551615, "inline_bytes": 18446744073709551615})");
  EXPECT_EQ(high.window_bytes, Channel::kWindowBytes);
  EXPECT_EQ(high.inline_bytes, std::size_t{1} << 40);
}

TEST(Tuning, FitsIntoTheSegment) {
  nlohmann::json largest = nlohmann::json::parse(Tuning{}.json());
  for (auto& value : largest) value = UINT64_MAX;
  EXPECT_LT(Tuning::from_json(largest.dump()).json().size(), sizeof(SegmentHeader::calibration));
}

TEST(Tuning, RefusesWhatIsNotATable) {
  for (const char* text : {"", "{", "[]", "7", "\"text\"", "null", "{\"piece_bytes\": 1e", "\xff\xfe"}) {
    try {
      Tuning::from_json(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Data) << text;
    }
  }
}

class CachedTuning : public ::testing::Test {
 protected:
  CachedTuning() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~CachedTuning() override { unsetenv("XDG_CACHE_HOME"); }
  fs::path only_file() const {
    const fs::recursive_directory_iterator end;
    for (fs::recursive_directory_iterator entry(folder_.path()); entry != end; ++entry) {
      if (entry->is_regular_file()) return entry->path();
    }
    return {};
  }
  const test::TemporaryFolder folder_;
};

TEST_F(CachedTuning, IsFoundByNumberOfRanks) {
  EXPECT_FALSE(cached_tuning(4));
  Tuning tuning;
  tuning.doubling_bytes = 12'345;
  cache_tuning(4, tuning);
  ASSERT_TRUE(cached_tuning(4));
  EXPECT_EQ(cached_tuning(4)->doubling_bytes, 12'345U);
  EXPECT_FALSE(cached_tuning(8));
  EXPECT_EQ(only_file().extension(), ".json") << "the file written aside was left behind";
}

TEST_F(CachedTuning, IsRefusedWhenCorrupt) {
  cache_tuning(2, Tuning{});
  fs::resize_file(only_file(), 20);
  EXPECT_THROW(cached_tuning(2), Error);
  std::ofstream(only_file(), std::ios::trunc) << "";
  EXPECT_THROW(cached_tuning(2), Error);
  cache_tuning(2, Tuning{});  // measured again
  EXPECT_TRUE(cached_tuning(2));
}

TEST_F(CachedTuning, GivesWayToTheOneGivenByHand) {
  cache_tuning(2, Tuning{});
  setenv("LOCKSTEP_TUNING", R"({"inline_bytes": 7})", 1);
  EXPECT_EQ(cached_tuning(2)->inline_bytes, 7U);
  for (const auto& [table, named] : {std::pair{R"({"inlne_bytes": 7})", "did you mean 'inline_bytes'?"},
                                     {R"({"inline_bytes": "7"})", "inline_bytes is \"7\", expected a number"},
                                     {"[7]", "is not a table"}}) {
    setenv("LOCKSTEP_TUNING", table, 1);
    try {
      given_tuning();
      ADD_FAILURE() << "accepted: " << table;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage) << table;
      EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
    }
  }
  unsetenv("LOCKSTEP_TUNING");
}

}  // namespace
}  // namespace lockstep::comm
