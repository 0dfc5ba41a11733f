#include "disk_use.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

TEST(DiskUse, CountsFilesAndWhatLiesInFolders) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "inner/empty");
  std::ofstream(folder / "inner/a") << std::string(5000, 'a');
  std::ofstream(folder / "inner/b") << "b";
  std::ofstream(folder / "c") << "cc";
  const auto use = disk_use({folder / "inner", folder / "c"});
  EXPECT_EQ(use.files, 3);
  EXPECT_EQ(use.bytes, 5003);
  EXPECT_EQ(use.disk_bytes % 512, 0);
  EXPECT_EQ(disk_use({}).files, 0);
  EXPECT_THROW(disk_use({folder / "absent"}), Error);
}

}  // namespace
}  // namespace lockstep::apps
