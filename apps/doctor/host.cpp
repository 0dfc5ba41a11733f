// The host itself, its memory, and torch.
#include <sys/statvfs.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "doctor/ask.h"
#include "doctor/findings.h"
#include "lockstep/core/cgroup.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/text.h"
#include "lockstep/core/version.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

/// "0-3,8" from an ascending list.
std::string ranges(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    parts.push_back(first == last ? fmt::format("{}", numbers[first])
                                  : fmt::format("{}-{}", numbers[first], numbers[last]));
  }
  return join(parts, ",");
}

/// "madvise" from "always [madvise] never"; empty if there is no such setting.
std::string chosen(const std::string& setting) {
  const auto open = setting.find('[');
  const auto close = setting.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return setting.substr(open + 1, close - open - 1);
}

}  // namespace

void look_at_host(Findings& findings) {
  const auto& host = machine();
  const auto cpus = usable_cpus();
  const auto quota = cpu_quota();
  findings.push_back({"host", "name", State::Good, fmt::format("{}, {}", host.host, host.kernel), ""});
  findings.push_back({"host", "processor", State::Good, host.cpu_model, ""});
  findings.push_back({"host", "cores", State::Good,
                      join({counted(host.cores, "core"), counted(host.cpus, "CPU"), counted(host.packages, "socket"),
                            counted(host.numa_nodes, "NUMA node")},
                           ", "),
                      ""});
  findings.push_back(
      {"host", "cpuset", State::Good, fmt::format("{} of them usable: {}", cpus.size(), ranges(cpus)), ""});
  const bool short_of_time = quota < static_cast<double>(cpus.size());
  findings.push_back({"host", "quota", short_of_time ? State::Poor : State::Good,
                      short_of_time ? fmt::format("{:.3g} CPUs' worth of time", quota) : "none",
                      short_of_time ? "start at most that many ranks and threads, or ask for a higher CPU limit" : ""});
  findings.push_back({"host", "caches", State::Good,
                      fmt::format("L1 {}, L2 {}, L3 {}", format_bytes(host.l1_bytes), format_bytes(host.l2_bytes),
                                  format_bytes(host.l3_bytes)),
                      ""});
}

void look_at_memory(Findings& findings) {
  const auto limit = cgroup_memory_limit();
  const auto total = machine().memory_bytes;
  findings.push_back({"memory", "total", State::Good, format_bytes(total), ""});
  findings.push_back(
      {"memory", "limit", State::Good, limit && *limit < total ? format_bytes(*limit) + " by the cgroup" : "none", ""});

  const fs::path settings = "/sys/kernel/mm/transparent_hugepage";
  const auto enabled = chosen(contents(settings / "enabled"));
  const bool off = enabled.empty() || enabled == "never";
  findings.push_back(
      {"memory", "huge pages", off ? State::Poor : State::Good, enabled.empty() ? "not in this kernel" : enabled,
       off && !enabled.empty() ? "for faster large tensors: echo madvise | sudo tee " + (settings / "enabled").string()
                               : ""});
  const auto shared = chosen(contents(settings / "shmem_enabled"));
  const bool shared_off = shared.empty() || shared == "never" || shared == "deny";
  findings.push_back(
      {"memory", "shared huge pages", shared_off ? State::Poor : State::Good,
       shared.empty() ? "not in this kernel" : shared,
       shared_off && !shared.empty()
           ? "for faster large buffers between ranks: echo advise | sudo tee " + (settings / "shmem_enabled").string()
           : ""});

  struct statvfs info{};
  if (statvfs("/dev/shm", &info) != 0) {
    findings.push_back({"memory", "/dev/shm", State::Absent, "not there",
                        "only for MPI libraries, not for Lockstep: mount -t tmpfs tmpfs /dev/shm"});
    return;
  }
  const auto size = static_cast<std::int64_t>(info.f_blocks * info.f_frsize);
  const auto free = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  const bool small = size < (std::int64_t{1} << 30);
  findings.push_back(
      {"memory", "/dev/shm", small ? State::Poor : State::Good,
       fmt::format("{}, {} free", format_bytes(size), format_bytes(free)),
       small ? "only for MPI libraries, not for Lockstep: sudo mount -o remount,size=8G /dev/shm, or start "
               "the container with --shm-size=8g"
             : ""});
}

void look_at_torch(Findings& findings) {
  const auto folder = folder_of_loaded("libtorch_cpu.so");
  findings.push_back(
      {"torch", "version", State::Good,
       folder.empty() ? std::string(kTorchVersion) : fmt::format("{} in {}", kTorchVersion, folder.string()), ""});
  const char* threads = std::getenv("OMP_NUM_THREADS");
  findings.push_back({"torch", "threads", State::Good,
                      fmt::format("{} for one rank on this host{}", fair_threads(1),
                                  threads != nullptr ? fmt::format(" (OMP_NUM_THREADS={})", threads) : ""),
                      ""});
}

}  // namespace lockstep::apps
