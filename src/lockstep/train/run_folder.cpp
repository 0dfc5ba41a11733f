#include "lockstep/train/run_folder.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/file.h"
#include "lockstep/core/text.h"
#include "lockstep/core/version.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr const char kAbout[] = "run.json";

std::string now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

/// Nobody else gets the same.
bool claim(const std::string& path) {
  std::error_code failed;
  const bool made = fs::create_directory(path, failed);
  if (failed && failed != std::errc::file_exists) fail_to_write(path, failed.value());
  return made;
}

std::string claim_numbered(const std::string& root, const std::string& stem) {
  for (int number = 1;; ++number) {
    const std::string path = fmt::format("{}/{}-{}", root, stem, number);
    if (claim(path)) return path;
  }
}

}  // namespace

RunFolder RunFolder::create(const std::string& root, const std::string& name, const std::string& stem,
                            const Config& recipe) {
  std::error_code failed;
  fs::create_directories(root, failed);
  if (failed) fail_to_write(root, failed.value());
  if (name.find('/') != std::string::npos || name.starts_with('.')) {
    fail(Fault::Usage, fmt::format("'{}' is no name for a run: neither a path nor hidden", name));
  }
  RunFolder run;
  const std::string& path = run.path_ = name.empty() ? claim_numbered(root, stem) : root + "/" + name;
  if (!name.empty() && !claim(path)) {
    fail(Fault::Usage, fmt::format("there is a run in {} already; go on with '{}', or give another --name", path,
                                   run.resume_command()));
  }
  run.about_ = {{"recipe", recipe.toml()}, {"lockstep", kVersion}, {"torch", kTorchVersion},
                {"host", machine().host},  {"started", now()},     {"state", "running"}};
  try {
    run.write();
  } catch (...) {
    std::error_code ignored;
    fs::remove(path, ignored);  // nobody could go on with it
    throw;
  }
  return run;
}

bool RunFolder::exists(const std::string& root, const std::string& name) {
  if (name.find('/') != std::string::npos) return false;
  std::error_code unknown;
  return fs::exists(root + "/" + name + "/" + kAbout, unknown);
}

RunFolder RunFolder::open(const std::string& root, const std::string& name) {
  if (!exists(root, name)) {
    fail(Fault::Usage, fmt::format("there is no run '{}' in {}{}", name, root, proposal(name, list(root))));
  }
  return RunFolder(root + "/" + name);
}

bool RunFolder::begun(const std::string& path) noexcept {
  std::error_code failed;
  for (fs::directory_iterator entry(path, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    const auto name = entry->path().filename();
    if (name != kAbout && name != kLock) return true;
  }
  return static_cast<bool>(failed);
}

void RunFolder::forget_unless_begun(const std::string& path) noexcept {
  std::error_code failed;
  if (!begun(path)) fs::remove_all(path, failed);
}

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  try {
    about_ = nlohmann::json::parse(read_whole(path_ + "/" + kAbout));
    (void)about_.at("recipe").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{}/{} does not tell of a run: {}", path_, kAbout, error.what()));
  }
}

std::vector<std::string> RunFolder::list(const std::string& root) {
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root, none)) {
    const auto about = entry.path() / kAbout;
    if (fs::exists(about, none)) found.emplace_back(fs::last_write_time(about, none), entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [time, name] : found) names.push_back(std::move(name));
  return names;
}

std::string RunFolder::name() const { return fs::path(path_).filename().string(); }

std::string RunFolder::resume_command() const {
  const std::string root = fs::path(path_).parent_path().string();
  return fmt::format("lockstep runs resume {}{}", name(), root == kRuns ? "" : " --runs " + root);
}

Config RunFolder::recipe() const {
  return Config::from_text(about_.at("recipe").get<std::string>(), path_ + "/" + kAbout);
}

std::string RunFolder::state() const { return about_.value("state", ""); }

void RunFolder::go_on(const Config& recipe) {
  about_["recipe"] = recipe.toml();
  about_["state"] = "running";
  about_["resumed"] = now();
  about_.erase("ended");
  write();
}

void RunFolder::end(const std::string& state, const nlohmann::json& result) {
  about_["state"] = state;
  about_["ended"] = now();
  about_["result"] = result;
  write();
}

void RunFolder::end_badly() {
  if (state() != "running") return;
  about_["state"] = "failed";
  about_["ended"] = now();
  write();
}

void RunFolder::write() const {
  WholeFile file(path_ + "/" + kAbout);
  file.write(about_.dump(2) + "\n");
  file.commit(WholeFile::Durable::Yes);
}

}  // namespace lockstep::train
