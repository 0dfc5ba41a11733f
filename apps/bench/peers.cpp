#include "bench/peers.h"

#include "bench/process.h"
#include "lockstep/core/paths.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

bool shell_says(const std::string& question) {
  constexpr double kTimeout_s = 10;
  return run_process({"/bin/sh", "-c", question}, kTimeout_s).exit_code == 0;
}

// benchmarks/peers/install would fetch what these do not find.
bool present(const std::string& peer, const fs::path& root) {
  const fs::path ready = root / ".venv-peers";
  if (peer == "openmpi") {
    return shell_says(
        "command -v mpicc.openmpi && command -v mpirun.openmpi || command -v mpicc && command -v ompi_info");
  }
  if (peer == "mpich") return shell_says("command -v mpicc.mpich && command -v mpirun.mpich");
  if (peer == "gloo") return fs::exists(ready / "gloo-python");
  return fs::exists(ready / "bin" / ("allreduce_" + peer));
}

}  // namespace

const std::vector<std::string>& peer_names() {
  static const std::vector<std::string> names = {"openmpi", "mpich", "intelmpi", "oneccl", "gloo"};
  return names;
}

std::vector<std::string> peers_present() {
  const fs::path folder = peers_folder();
  if (folder.empty()) return {};
  std::vector<std::string> found;
  for (const auto& peer : peer_names()) {
    if (present(peer, folder.parent_path().parent_path())) found.push_back(peer);
  }
  return found;
}

fs::path peers_folder() {
  for (fs::path folder : {own_program().parent_path(), fs::current_path()}) {
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (fs::exists(folder / "benchmarks/peers/run")) return folder / "benchmarks/peers";
    }
  }
  return {};
}

}  // namespace lockstep::apps
