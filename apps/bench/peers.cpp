#include "bench/peers.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/paths.h"
#include "lockstep/core/text.h"
#include "process.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kInstallTimeout_s = 1800;  // the largest fetches a torch

// The one that knows how each is found answers; gloo's import of torch takes seconds.
bool present(const std::string& peer, const fs::path& folder) {
  constexpr double kTimeout_s = 60;
  return run_process({folder / "install", "--present", peer}, kTimeout_s).exit_code == 0;
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
    if (present(peer, folder)) found.push_back(peer);
  }
  return found;
}

std::vector<std::string> checked_peers(const std::vector<std::string>& wanted, const std::vector<std::string>& known) {
  if (wanted == std::vector<std::string>{"none"}) return {};
  for (const auto& peer : wanted) {
    if (std::find(known.begin(), known.end(), peer) == known.end())
      fail(Fault::Usage, fmt::format("unknown peer '{}'{}", peer, proposal(peer, known)));
  }
  return wanted;
}

std::vector<std::string> install_peers(const std::vector<std::string>& peers, const std::string& installer,
                                       Report& report) {
  const fs::path folder = peers_folder();
  std::vector<std::string> ready;
  for (const auto& peer : peers) {
    if (folder.empty()) {
      report.skip(peer, "benchmarks/peers of the source tree was not found");
      continue;
    }
    fmt::print("preparing {}\n", peer);
    std::fflush(stdout);
    const auto installed = run_process({folder / installer, peer}, kInstallTimeout_s);
    if (installed.exit_code == 0)
      ready.push_back(peer);
    else
      report.skip(peer, reason_of(installed));
  }
  return ready;
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
