// lockstep/data/absent_format.h
//
// Stands in for a format whose engine was not there when Lockstep was built: it is
// found by name and extension like the real one, and says what to install.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/data/format.h"

namespace lockstep::data {

/// "HDF5", "apt install libhdf5-dev"
[[noreturn]] inline void refuse_without(const std::string& engine, const std::string& remedy) {
  fail(Fault::Usage, fmt::format("this build is without {}; {} and build again", engine, remedy));
}

class AbsentFormat final : public Format {
 public:
  /// "HDF5", {".h5"}, "apt install libhdf5-dev"
  AbsentFormat(std::string engine, std::vector<std::string> extensions, std::string remedy)
      : engine_(std::move(engine)), extensions_(std::move(extensions)), remedy_(std::move(remedy)) {}

  std::vector<std::string> extensions() const override { return extensions_; }
  Index scan(const std::string&, const OpenOptions&) const override { refuse_without(engine_, remedy_); }
  std::unique_ptr<Writer> write(const std::string&, const Schema&, const WriteOptions&) const override {
    refuse_without(engine_, remedy_);
  }

 private:
  std::string engine_;
  std::vector<std::string> extensions_;
  std::string remedy_;
};

}  // namespace lockstep::data
