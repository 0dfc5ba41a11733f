// lockstep/core/testing.h
//
// For tests: a folder that is gone afterwards, and what an Error says.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "lockstep/core/error.h"

namespace lockstep::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::path(::testing::TempDir()) / "lockstep_test_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) fail_errno("cannot make the folder " + pattern, errno);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code stays;
    std::filesystem::remove_all(path_, stays);
    if (stays) ADD_FAILURE() << path_ << ": " << stays.message();
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return std::filesystem::path(path_) / name; }
  /// With the folders above it; its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = *this / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::string path_;
};

/// The Error that `work` must end in.
inline Error error_of(const std::function<void()>& work, Fault fault) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {fault, "", std::source_location::current()};
}

/// What it says, without what was being done.
inline std::string message_of(const std::function<void()>& work, Fault fault = Fault::Usage) {
  return error_of(work, fault).message();
}

}  // namespace lockstep::test
