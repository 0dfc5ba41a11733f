#include "lockstep/comm/mpirun.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/comm/environment.h"
#include "lockstep/comm/launched_run.h"
#include "lockstep/comm/segment.h"
#include "lockstep/core/arguments.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::comm {
namespace {

bool is_host_name(const std::string& text) {
  constexpr auto kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.front() != '-' && text.find_first_not_of(kAllowed) == std::string::npos;
}

int most_slots(const std::vector<HostSlots>& hosts) {
  return std::max_element(hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.slots < b.slots; })
      ->slots;
}

int all_slots(const std::vector<HostSlots>& hosts) {
  int sum = 0;
  for (const auto& host : hosts) sum += host.slots;
  return sum;
}

struct Translation {
  const char* ours;
  const char* of_mpirun;
};
constexpr Translation kOfARank[] = {{environment::kRank, "OMPI_COMM_WORLD_RANK"},
                                    {environment::kSize, "OMPI_COMM_WORLD_SIZE"},
                                    {environment::kLocalRank, "OMPI_COMM_WORLD_LOCAL_RANK"},
                                    {environment::kLocalSize, "OMPI_COMM_WORLD_LOCAL_SIZE"}};

/// A rank of another launcher may start hosts. What says so would make theirs look for its memory.
void forget_to_be_a_rank() {
  for (const auto& name : kOfARank) unsetenv(name.ours);
  unsetenv(environment::kSegment);
  unsetenv(environment::kRestart);
}

void become(const std::vector<std::string>& command) {
  const auto arguments = arguments_of(command);
  std::fflush(nullptr);
  execvp(arguments[0], arguments.data());
}

/// Ours, and those by which libraries choose threads and kernels.
std::vector<std::string> names_to_hand_on() {
  constexpr const char* kPrefixes[] = {"LOCKSTEP_", "OMP_", "MKL_", "ATEN_", "ONEDNN_"};
  std::vector<std::string> names;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::string name = text.substr(0, text.find('='));
    const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
    if (std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins)) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  for (const auto& part : split(text, ',')) {
    const auto fields = split(part, ':');
    if (fields.empty() || fields.size() > 2 || !is_host_name(fields[0])) {
      fail(Fault::Usage, fmt::format("--hosts {}: '{}' is not HOST or HOST:RANKS; e.g. --hosts a:4,b:4", text, part));
    }
    const auto slots =
        fields.size() == 2 ? parse_integer("ranks of host " + fields[0], fields[1], 1, kMostRanksOfHost) : 1;
    // mpirun too adds up what is said of a host in several places.
    auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h.host == fields[0]; });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {fields[0], 0});
    host->slots += static_cast<int>(slots);
    if (host->slots > kMostRanksOfHost) {
      fail(Fault::Usage, fmt::format("--hosts {}: {} ranks on host {}; between 1 and {} are possible", text,
                                     host->slots, host->host, kMostRanksOfHost));
    }
  }
  return hosts;
}

std::vector<std::string> mpirun_command(const LaunchOptions& options, const std::vector<std::string>& environment) {
  const auto hosts = parse_hosts(options.hosts);
  const int ranks = options.ranks.value_or(all_slots(hosts));
  if (ranks > all_slots(hosts)) {
    fail(Fault::Usage, fmt::format("-n {} but --hosts {} has room for {}; give hosts more, as in {}:{}", ranks,
                                   options.hosts, all_slots(hosts), hosts[0].host, ranks));
  }
  if (options.restarts > 0) {
    fail(Fault::Usage, "--restarts works on one host only; on several let the batch system start the job again");
  }
  if (options.grace_s) {
    fail(Fault::Usage,
         "--grace works on one host only; on several mpirun and the batch system end ranks in their own time");
  }
  // The other hosts are taken to be like this one.
  const bool crowded = most_slots(hosts) > static_cast<int>(usable_cores().size());
  std::vector<std::string> places;
  for (const auto& host : hosts) places.push_back(fmt::format("{}:{}", host.host, host.slots));

  std::vector<std::string> command = {environment::get("LOCKSTEP_MPIRUN").value_or("mpirun"),
                                      "--host",
                                      join(places, ","),
                                      "-n",
                                      std::to_string(ranks),
                                      "--map-by",
                                      "slot",
                                      "--bind-to",
                                      !options.bind.empty() ? options.bind
                                      : crowded             ? "none"
                                                            : "core"};
  // Ranks that spin in MPI would keep each other from running.
  if (crowded) command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
  if (options.prefix) command.emplace_back("--tag-output");
  for (const auto& name : environment) command.insert(command.end(), {"-x", name});
  command.insert(command.end(), options.starter.begin(), options.starter.end());
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

void become_program(const std::vector<std::string>& command) {
  if (command.empty()) fail(Fault::Usage, "no program to start");
  for (const auto& [ours, of_mpirun] : kOfARank) {
    const auto value = environment::get(of_mpirun);
    if (!value) fail(Fault::Usage, fmt::format("{} is not set: only mpirun of Open MPI starts this", of_mpirun));
    setenv(ours, value->c_str(), 1);
  }
  setenv(environment::kRestart, "0", 1);
  become(command);
  const int reason = errno;
  if (!environment::speaks_for_host()) _exit(exit_code::kUsage);
  fail(Fault::Usage, fmt::format("cannot run '{}': {}", command[0], std::strerror(reason)));
}

void become_mpirun(const LaunchOptions& options) {
  const auto hosts = parse_hosts(options.hosts);
  for (const auto& [name, value] : launch_environment(options, most_slots(hosts)))
    setenv(name.c_str(), value.c_str(), 1);
  forget_to_be_a_rank();
  if (geteuid() == 0) {  // containers; Open MPI wants to hear it twice
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  }
  const auto command = mpirun_command(options, names_to_hand_on());
  become(command);
  const int reason = errno;
  fail(Fault::Usage, fmt::format("cannot run '{}': {}; several hosts need Open MPI: apt install openmpi-bin, or set "
                                 "LOCKSTEP_MPIRUN",
                                 command[0], std::strerror(reason)));
}

}  // namespace lockstep::comm
