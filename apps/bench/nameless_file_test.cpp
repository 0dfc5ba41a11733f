#include "bench/nameless_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

class NamelessFile : public testing::Test {
 protected:
  NamelessFile() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~NamelessFile() override { unsetenv("XDG_CACHE_HOME"); }
  bool nothing_is_left() const { return fs::is_empty(folder_ / "lockstep"); }

  test::TemporaryFolder folder_;
};

TEST_F(NamelessFile, HasWhatWasWrittenInItsPlace) {
  const auto file = nameless_file("test", [](const std::string& path) {
    EXPECT_EQ(fs::path(path).filename().string().rfind("bench-test-", 0), 0U) << path;
    // As writers do that leave a whole file or none.
    std::ofstream(path + ".aside") << "weights";
    fs::rename(path + ".aside", path);
  });
  EXPECT_TRUE(nothing_is_left());
  std::ifstream in(path_of(file));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "weights");
}

TEST_F(NamelessFile, IsGoneIfWritingFails) {
  const auto write = [](const std::string&) { fail(Fault::Io, "the disk is full"); };
  EXPECT_EQ(test::message_of([&] { (void)nameless_file("test", write); }, Fault::Io), "the disk is full");
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(NamelessFile, HasNoPathIfThereIsNone) { EXPECT_EQ(path_of(FileDescriptor()), ""); }

}  // namespace
}  // namespace lockstep::apps
