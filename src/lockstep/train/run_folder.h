// lockstep/train/run_folder.h
//
// What a run leaves: ROOT/NAME with run.json (recipe, versions, state, result) and
// checkpoints/. One process at a time writes it, see run_lock.h.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/core/config.h"

namespace lockstep::train {

/// Where runs are, unless a user says otherwise.
inline constexpr const char kRuns[] = "runs";
/// Beside what a run leaves: a file of run_lock.h.
inline constexpr const char kLock[] = "lock";

class RunFolder {
 public:
  /// A new one. Without a name it is called after `stem`, with the next free number. Fault::Usage if the name is taken.
  static RunFolder create(const std::string& root, const std::string& name, const std::string& stem,
                          const Config& recipe);
  static bool exists(const std::string& root, const std::string& name);
  /// Fault::Usage if there is none, proposing the nearest.
  static RunFolder open(const std::string& root, const std::string& name);
  /// Whether it holds more than what it was made with.
  static bool begun(const std::string& path) noexcept;
  /// Removes one in which nothing has happened yet.
  static void forget_unless_begun(const std::string& path) noexcept;
  /// By its path.
  explicit RunFolder(std::string path);
  /// Names of all, the oldest first.
  static std::vector<std::string> list(const std::string& root);

  const std::string& path() const noexcept { return path_; }
  std::string name() const;
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  /// What goes on with it.
  std::string resume_command() const;
  Config recipe() const;
  const nlohmann::json& about() const noexcept { return about_; }
  /// "running", "done", "stopped" or "failed".
  std::string state() const;
  /// It runs again, from now on with this recipe.
  void go_on(const Config& recipe);
  /// "done" or "stopped", by who has the result.
  void end(const std::string& state, const nlohmann::json& result);
  /// By who saw it end without one. A run that had not begun to go on stays what it was.
  void end_badly();

 private:
  RunFolder() = default;
  void write() const;

  std::string path_;
  nlohmann::json about_;
};

}  // namespace lockstep::train
