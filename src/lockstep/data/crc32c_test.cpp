#include "lockstep/data/crc32c.h"

#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/data/file_bytes.h"

namespace lockstep::data {
namespace {

// The vectors of RFC 3720, B.4.
TEST(Crc32c, GivesTheKnownSums) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\0'))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(as_bytes(std::string(32, '\xFF'))), 0x62A8AB43U);
  EXPECT_EQ(crc32c(as_bytes(rising)), 0x46DD794EU);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, IsTheSameByTable) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(crc32c(as_bytes(bytes)), crc32c_by_table(as_bytes(bytes))) << i << " bytes";
    bytes += static_cast<char>(i * 37);
  }
}

}  // namespace
}  // namespace lockstep::data
