#include "train/loss_file.h"

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/file.h"

namespace lockstep::apps {
namespace {

constexpr const char kHead[] = "step,loss";

/// Lines of steps up to this one; those of a file that is none of ours are dropped, too.
std::string kept_lines(const std::string& path, std::int64_t last_step) {
  std::string kept;
  std::istringstream lines(read_whole(path));
  for (std::string line; std::getline(lines, line);) {
    std::int64_t step = 0;
    char comma = 0;
    std::istringstream words(line);
    if (words >> step >> comma && comma == ',' && step <= last_step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

LossFile::LossFile(std::string path) : path_(std::move(path)) {}

void LossFile::on_start(const train::RunInfo& info) {
  const bool goes_on = info.first_step > 0 && std::filesystem::exists(path_);
  const std::string kept = goes_on ? kept_lines(path_, info.first_step) : "";
  out_.open(path_);
  write(kHead);
  out_ << kept;
}

void LossFile::on_step(const train::StepReport& report) { write(fmt::format("{},{}", report.step, report.loss)); }

void LossFile::write(const std::string& line) {
  out_ << line << std::endl;  // to where it is safe from the end of this process
  if (!out_) fail_to_write(path_, errno);
}

}  // namespace lockstep::apps
