// apps/doctor.cpp
//
// `lockstep doctor`: what Lockstep found on this host, and what to do about what
// it did not find. It only looks, and always ends with exit code 0.
#include <dlfcn.h>
#include <link.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/text.h"
#include "lockstep/core/version.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

enum class State { Good, Poor, Absent };

/// One line of the report. A remedy is there if something can be done.
struct Finding {
  std::string section;
  std::string item;
  State state = State::Good;
  std::string text;
  std::string remedy;
};
using Findings = std::vector<Finding>;

struct LibraryTraits {
  using Raw = void*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { ::dlclose(raw); }
};
using Library = Handle<LibraryTraits>;

struct PipeTraits {
  using Raw = std::FILE*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { ::pclose(raw); }
};
using Pipe = Handle<PipeTraits>;

template <class Function>
Function* symbol(const Library& library, const char* name) {
  return library ? reinterpret_cast<Function*>(::dlsym(library.get(), name)) : nullptr;
}

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(" \t\n"), text.size()));
  return text;
}

/// The whole file, or empty if it cannot be read.
std::string contents(const fs::path& path) {
  std::ifstream stream(path);
  return trimmed({std::istreambuf_iterator<char>(stream), {}});
}

/// What the command prints, or empty. Bounded: srun asks the network for its configuration.
std::string output_of(const std::string& command) {
  const Pipe pipe(::popen(("timeout 5 " + command + " </dev/null 2>&1").c_str(), "r"));
  std::string text;
  std::array<char, 512> block{};
  while (pipe && std::fgets(block.data(), block.size(), pipe.get()) != nullptr) text += block.data();
  return trimmed(text);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path != nullptr ? path : "", ':')) {
    if (::access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

/// Folder of a library that this process has loaded; empty if it has not.
fs::path folder_of_loaded(const std::string& prefix) {
  struct Query {
    const std::string& prefix;
    fs::path found;
  } query{prefix, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Query*>(data);
        const fs::path path(info->dlpi_name);
        if (!path.filename().string().starts_with(wanted.prefix)) return 0;
        wanted.found = path.parent_path();
        return 1;
      },
      &query);
  return query.found;
}

std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

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

/// The tightest memory limit of this process's cgroup and those around it, version 1 or 2.
std::optional<std::int64_t> memory_limit_bytes() {
  std::optional<std::int64_t> tightest;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto fields = split(line, ':');
    if (fields.size() < 3 || !(fields[1].empty() || fields[1] == "memory")) continue;
    const bool version2 = fields[1].empty();
    const fs::path mount = version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (fs::path group = fs::path(fields[2]).relative_path();; group = group.parent_path()) {
      const auto text = contents(mount / group / (version2 ? "memory.max" : "memory.limit_in_bytes"));
      // Version 1 writes "no limit" as the largest multiple of a page.
      const auto bytes = text.empty() || text == "max" ? 0.0 : std::strtod(text.c_str(), nullptr);
      if (bytes > 0 && bytes < 0x1p60) {
        tightest = std::min(tightest.value_or(INT64_MAX), static_cast<std::int64_t>(bytes));
      }
      if (group.empty()) break;
    }
  }
  return tightest;
}

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
  const auto limit = memory_limit_bytes();
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
  if (::statvfs("/dev/shm", &info) != 0) {
    findings.push_back({"memory", "/dev/shm", State::Absent, "not there", "mount -t tmpfs tmpfs /dev/shm"});
    return;
  }
  const auto size = static_cast<std::int64_t>(info.f_blocks * info.f_frsize);
  const auto free = static_cast<std::int64_t>(info.f_bavail * info.f_frsize);
  const bool small = size < (std::int64_t{1} << 30);
  findings.push_back(
      {"memory", "/dev/shm", small ? State::Poor : State::Good,
       fmt::format("{}, {} free", format_bytes(size), format_bytes(free)),
       small ? "sudo mount -o remount,size=8G /dev/shm, or start the container with --shm-size=8g" : ""});
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

void look_at_mpi(Findings& findings) {
  if (on_path("mpirun")) {
    findings.push_back({"MPI", "mpirun", State::Good, first_line(output_of("mpirun --version")), ""});
  } else {
    findings.push_back({"MPI", "mpirun", State::Absent, "not on PATH",
                        "to run on several hosts: apt-get install openmpi-bin, or module load openmpi"});
  }
  auto folder = folder_of_loaded("liblockstep.so");
  if (folder.empty()) folder = fs::read_symlink("/proc/self/exe").parent_path();
  const auto plugin = folder / "liblockstep_mpi.so";
  const bool there = fs::exists(plugin);
  findings.push_back({"MPI", "plug-in", there ? State::Good : State::Absent,
                      there ? plugin.string() : "not beside the library",
                      there ? "" : "for the mpi and hier back-ends: apt-get install libopenmpi-dev and build again"});
}

void look_at_slurm(Findings& findings) {
  if (!on_path("srun")) {
    findings.push_back({"Slurm", "srun", State::Absent, "not on PATH",
                        "nothing to do unless this is a cluster: then run on a login or compute node"});
    return;
  }
  const auto version = first_line(output_of("srun --version"));
  if (!version.starts_with("slurm")) {
    findings.push_back({"Slurm", "srun", State::Poor, "installed, but it finds no cluster",
                        "set SLURM_CONF to the cluster's slurm.conf, or run on a login node"});
    return;
  }
  findings.push_back({"Slurm", "srun", State::Good, version, ""});
  auto plugins = output_of("srun --mpi=list");
  std::replace(plugins.begin(), plugins.end(), '\n', ' ');
  const bool pmix = plugins.find("pmix") != std::string::npos;
  findings.push_back(
      {"Slurm", "PMIx", pmix ? State::Good : State::Absent, pmix ? "srun --mpi=pmix works" : plugins,
       pmix ? "" : "srun cannot start MPI ranks: use mpirun inside sbatch, or install Slurm's pmix plug-in"});
  const auto nodes = first_line(output_of("sinfo --noheader --format='%D nodes, %F (allocated/idle/other/total)'"));
  findings.push_back({"Slurm", "nodes", State::Good, nodes, ""});
}

std::string cuda_version(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

/// By NVIDIA's management library, whose header no toolkit brings: these are its C declarations.
void look_at_gpus(Findings& findings) {
  struct Memory {
    unsigned long long total, free, used;
  };
  const Library nvml(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  const auto start = symbol<int()>(nvml, "nvmlInit_v2");
  const auto stop = symbol<int()>(nvml, "nvmlShutdown");
  const auto driver = symbol<int(char*, unsigned)>(nvml, "nvmlSystemGetDriverVersion");
  const auto count = symbol<int(unsigned*)>(nvml, "nvmlDeviceGetCount_v2");
  const auto device = symbol<int(unsigned, void**)>(nvml, "nvmlDeviceGetHandleByIndex_v2");
  const auto name = symbol<int(void*, char*, unsigned)>(nvml, "nvmlDeviceGetName");
  const auto memory = symbol<int(void*, Memory*)>(nvml, "nvmlDeviceGetMemoryInfo");
  if (!start || !stop || !driver || !count || !device || !name || !memory || start() != 0) {
    findings.push_back({"CUDA", "GPUs", State::Absent, "no NVIDIA driver",
                        "nothing to do unless there is a GPU: then install the NVIDIA driver"});
    return;
  }
  std::array<char, 96> text{};
  unsigned devices = 0;
  if (driver(text.data(), text.size()) == 0) findings.push_back({"CUDA", "driver", State::Good, text.data(), ""});
  if (count(&devices) != 0 || devices == 0) {
    findings.push_back({"CUDA", "GPUs", State::Absent, "the driver shows none",
                        "ask the batch system for a GPU, or start the container with --gpus=all"});
  }
  for (unsigned i = 0; i < devices; ++i) {
    void* handle = nullptr;
    Memory bytes{};
    if (device(i, &handle) != 0 || name(handle, text.data(), text.size()) != 0 || memory(handle, &bytes) != 0) continue;
    findings.push_back({"CUDA", fmt::format("GPU {}", i), State::Good,
                        fmt::format("{}, {}", text.data(), format_bytes(static_cast<std::int64_t>(bytes.total))), ""});
  }
  stop();
}

void look_at_cuda(Findings& findings) {
  look_at_gpus(findings);
  const Library cuda(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  int version = 0;
  if (const auto ask = symbol<int(int*)>(cuda, "cuDriverGetVersion"); ask && ask(&version) == 0) {
    findings.push_back({"CUDA", "supports", State::Good, "CUDA " + cuda_version(version), ""});
  }
  if (on_path("nvcc")) {
    const auto text = output_of("nvcc --version");
    const auto release = text.find("release ");
    findings.push_back({"CUDA", "nvcc", State::Good,
                        release == std::string::npos ? first_line(text) : first_line(text.substr(release)), ""});
  } else {
    findings.push_back({"CUDA", "nvcc", State::Absent, "not on PATH",
                        "only to build with CUDA: install the CUDA toolkit and add its bin folder to PATH"});
  }
  // A CUDA wheel of torch brings NCCL in a package beside its own.
  const auto beside = folder_of_loaded("libtorch_cpu.so") / "../../nvidia/nccl/lib/libnccl.so.2";
  Library nccl(::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL));
  if (!nccl) nccl = Library(::dlopen(beside.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (const auto ask = symbol<int(int*)>(nccl, "ncclGetVersion"); ask && ask(&version) == 0) {
    findings.push_back({"CUDA", "NCCL", State::Good,
                        fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100), ""});
  } else {
    findings.push_back({"CUDA", "NCCL", State::Absent, "libnccl.so.2 not found",
                        "only for several GPUs: apt-get install libnccl2, or use a CUDA build of torch"});
  }
}

nlohmann::json to_json(const Findings& findings) {
  static constexpr std::array kNames{"good", "poor", "absent"};
  const auto& host = machine();
  nlohmann::json result;
  result["lockstep"] = kVersion;
  result["torch"] = kTorchVersion;
  result["machine"] = {{"host", host.host},
                       {"kernel", host.kernel},
                       {"cpu_model", host.cpu_model},
                       {"packages", host.packages},
                       {"cores", host.cores},
                       {"cpus", host.cpus},
                       {"numa_nodes", host.numa_nodes},
                       {"usable_cpus", usable_cpus()},
                       {"cpu_quota", cpu_quota()},
                       {"l1_bytes", host.l1_bytes},
                       {"l2_bytes", host.l2_bytes},
                       {"l3_bytes", host.l3_bytes},
                       {"memory_bytes", host.memory_bytes}};
  if (const auto limit = memory_limit_bytes()) result["machine"]["memory_limit_bytes"] = *limit;
  for (const auto& finding : findings) {
    nlohmann::json entry{{"section", finding.section},
                         {"item", finding.item},
                         {"state", kNames.at(static_cast<std::size_t>(finding.state))},
                         {"text", finding.text}};
    if (!finding.remedy.empty()) entry["remedy"] = finding.remedy;
    result["findings"].push_back(std::move(entry));
  }
  return result;
}

void print(const Findings& findings) {
  const bool colours = ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  const auto paint = [colours](const char* code, const std::string& text) {
    return colours ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.item.size());

  fmt::print("{}\n", paint("1", fmt::format("Lockstep {}", kVersion)));
  std::string section;
  std::int64_t remedies = 0;
  for (const auto& finding : findings) {
    if (finding.section != section) {
      section = finding.section;
      fmt::print("\n{}\n", paint("1", section));
    }
    const auto mark = finding.state == State::Good   ? paint("32", "✓")
                      : finding.state == State::Poor ? paint("33", "!")
                                                     : paint("90", "–");
    fmt::print("  {} {:<{}}  {}\n", mark, finding.item, width, finding.text);
    if (finding.remedy.empty()) continue;
    ++remedies;
    fmt::print("    {:<{}}  {}\n", "", width, paint("36", "→ " + finding.remedy));
  }
  fmt::print("\n{}\n", remedies == 0
                           ? "Nothing to improve."
                           : fmt::format("{} above (→); nothing of it is needed to start.", counted(remedies, "hint")));
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto* command = app.add_subcommand("doctor", "Shows what this host offers and how to improve it");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print it as JSON");
  command->callback([json] {
    Findings findings;
    look_at_host(findings);
    look_at_memory(findings);
    look_at_torch(findings);
    look_at_mpi(findings);
    look_at_slurm(findings);
    look_at_cuda(findings);
    if (*json) {
      fmt::print("{}", json_text(to_json(findings)));
    } else {
      print(findings);
    }
  });
}

}  // namespace lockstep::apps
