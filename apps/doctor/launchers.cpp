// What starts ranks on several hosts: MPI and Slurm.
#include <algorithm>
#include <filesystem>
#include <string>

#include "doctor/ask.h"
#include "doctor/findings.h"
#include "lockstep/core/paths.h"

namespace lockstep::apps {
namespace {

/// srun itself answers, but what it says of the cluster may be that there is none.
void look_at_nodes(Findings& findings) {
  const auto nodes = ask("sinfo", {"--noheader", "--format=%D nodes, %F (allocated/idle/other/total)"});
  const auto text = first_line(nodes.output);
  if (nodes.exit_code == 0 && !nodes.timed_out && !text.empty()) {
    findings.push_back({"Slurm", "nodes", State::Good, text, ""});
  } else {
    findings.push_back({"Slurm", "nodes", State::Poor,
                        nodes.exit_code == 0 && !nodes.timed_out ? "sinfo lists none" : reason_of(nodes),
                        "see whether the cluster's controller is up: scontrol ping"});
  }
}

}  // namespace

void look_at_mpi(Findings& findings) {
  if (!on_path("mpirun").empty()) {
    const auto version = ask("mpirun", {"--version"});
    const bool runs = version.exit_code == 0 && !version.timed_out;
    findings.push_back({"MPI", "mpirun", runs ? State::Good : State::Poor,
                        runs ? first_line(version.output) : reason_of(version),
                        runs ? "" : "mpirun does not run: install it anew, or module load another"});
  } else {
    findings.push_back({"MPI", "mpirun", State::Absent, "not on PATH",
                        "to run on several hosts: apt-get install openmpi-bin, or module load openmpi"});
  }
  auto folder = folder_of_loaded("liblockstep.so");
  if (folder.empty()) folder = own_program().parent_path();
  const auto plugin = folder / "liblockstep_mpi.so";
  const bool there = std::filesystem::exists(plugin);
  findings.push_back({"MPI", "plug-in", there ? State::Good : State::Absent,
                      there ? plugin.string() : "not beside the library",
                      there ? "" : "for the mpi and hier back-ends: apt-get install libopenmpi-dev and build again"});
}

void look_at_slurm(Findings& findings) {
  if (on_path("srun").empty()) {
    findings.push_back({"Slurm", "srun", State::Absent, "not on PATH",
                        "nothing to do unless this is a cluster: then run on a login or compute node"});
    return;
  }
  const auto version = first_line(ask("srun", {"--version"}).output);
  if (!version.starts_with("slurm")) {
    findings.push_back({"Slurm", "srun", State::Poor, "installed, but it finds no cluster",
                        "set SLURM_CONF to the cluster's slurm.conf, or run on a login node"});
    return;
  }
  findings.push_back({"Slurm", "srun", State::Good, version, ""});
  const auto list = ask("srun", {"--mpi=list"});
  auto plugins = list.output + list.errors;  // which of both depends on the version
  std::replace(plugins.begin(), plugins.end(), '\n', ' ');
  const bool pmix = plugins.find("pmix") != std::string::npos;
  findings.push_back(
      {"Slurm", "PMIx", pmix ? State::Good : State::Absent, pmix ? "srun --mpi=pmix works" : plugins,
       pmix ? "" : "srun cannot start MPI ranks: use mpirun inside sbatch, or install Slurm's pmix plug-in"});
  look_at_nodes(findings);
}

}  // namespace lockstep::apps
