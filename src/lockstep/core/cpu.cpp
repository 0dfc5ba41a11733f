#include "lockstep/core/cpu.h"

#include <hwloc.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <map>
#include <set>

#include "lockstep/core/cgroup.h"
#include "lockstep/core/error.h"
#include "lockstep/core/handle.h"
#include "lockstep/core/text.h"

namespace lockstep {
namespace {

struct CpuSetTraits {
  using Raw = cpu_set_t*;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { CPU_FREE(raw); }
};
using CpuSet = Handle<CpuSetTraits>;

struct TopologyTraits {
  using Raw = hwloc_topology_t;
  static Raw empty() noexcept { return nullptr; }
  static void release(Raw raw) noexcept { hwloc_topology_destroy(raw); }
};
using Topology = Handle<TopologyTraits>;

hwloc_topology_t topology() {
  static const Topology loaded = [] {
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) fail(Fault::Internal, "hwloc cannot start");
    Topology result(raw);
    if (hwloc_topology_load(raw) != 0) fail_errno("hwloc cannot read the topology of this host", errno);
    return result;
  }();
  return loaded.get();
}

/// The half-open part of `count` things that belongs to `rank`: contiguous, sizes differing by one at most.
std::pair<std::size_t, std::size_t> share(std::size_t count, std::size_t ranks, std::size_t rank) {
  return {rank * count / ranks, (rank + 1) * count / ranks};
}

std::string cpu_model() {
  if (auto* package = hwloc_get_obj_by_type(topology(), HWLOC_OBJ_PACKAGE, 0); package != nullptr) {
    if (const char* model = hwloc_obj_get_info_by_name(package, "CPUModel"); model != nullptr) return model;
  }
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::int64_t cache_bytes(hwloc_obj_type_t type) {
  const auto* cache = hwloc_get_obj_by_type(topology(), type, 0);
  return cache == nullptr ? 0 : static_cast<std::int64_t>(cache->attr->cache.size);
}

Machine read_machine() {
  Machine result;
  utsname names{};
  if (uname(&names) != 0) fail_errno("cannot read the name of this host", errno);
  result.host = names.nodename;
  result.kernel = std::string(names.sysname) + ' ' + names.release;
  result.cpu_model = cpu_model();
  // hwloc counts -1 where a type stands at several depths and 0 where a sandbox hides it.
  const auto count = [](hwloc_obj_type_t type) { return std::max(hwloc_get_nbobjs_by_type(topology(), type), 0); };
  result.cpus = count(HWLOC_OBJ_PU);
  result.cores = count(HWLOC_OBJ_CORE) > 0 ? count(HWLOC_OBJ_CORE) : result.cpus;
  result.packages = std::max(count(HWLOC_OBJ_PACKAGE), 1);
  result.numa_nodes = std::max(count(HWLOC_OBJ_NUMANODE), 1);
  result.l1_bytes = cache_bytes(HWLOC_OBJ_L1CACHE);
  result.l2_bytes = cache_bytes(HWLOC_OBJ_L2CACHE);
  result.l3_bytes = cache_bytes(HWLOC_OBJ_L3CACHE);
  // Not hwloc's sum over NUMA nodes: it misses memory that a virtual machine was given after its start.
  result.memory_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  return result;
}

}  // namespace

std::vector<int> usable_cpus() {
  // Hosts with more CPUs than the fixed cpu_set_t holds exist; the kernel answers EINVAL until the set is large enough.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 2) {
    const CpuSet set(CPU_ALLOC(capacity));
    const auto bytes = CPU_ALLOC_SIZE(capacity);
    if (!set) fail(Fault::Internal, "no memory for a CPU set");
    if (sched_getaffinity(0, bytes, set.get()) != 0) {
      if (errno == EINVAL) continue;
      fail_errno("cannot read the CPUs of this process", errno);
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  fail(Fault::Internal, "cannot read the CPUs of this process: more than 2^20 of them");
}

double cpu_quota() {
  const auto cpus = static_cast<double>(usable_cpus().size());
  return std::min(cgroup_cpu_limit().value_or(cpus), cpus);
}

int fair_threads(int ranks_on_host) {
  if (ranks_on_host < 1)
    fail(Fault::Usage, "ranks on this host: " + std::to_string(ranks_on_host) + ", expected 1 or more");
  const auto cores = static_cast<double>(usable_cores().size());
  return std::max(1, static_cast<int>(std::min(cores, cpu_quota()) / ranks_on_host));
}

std::vector<CpuCore> usable_cores() {
  const auto usable = usable_cpus();
  std::set<int> left(usable.begin(), usable.end());
  std::map<int, std::vector<CpuCore>> cores_of_node;
  const hwloc_obj* previous = nullptr;
  for (hwloc_obj_t cpu = nullptr; (cpu = hwloc_get_next_obj_by_type(topology(), HWLOC_OBJ_PU, cpu)) != nullptr;) {
    if (left.erase(static_cast<int>(cpu->os_index)) == 0) continue;
    const hwloc_obj* core = hwloc_get_ancestor_obj_by_type(topology(), HWLOC_OBJ_CORE, cpu);
    const int node = std::max(hwloc_bitmap_first(cpu->nodeset), 0);
    auto& cores = cores_of_node[node];
    if (core == nullptr || core != previous) cores.push_back({node, {}});
    cores.back().cpus.push_back(static_cast<int>(cpu->os_index));
    previous = core;
  }
  // A CPU that came online after hwloc looked.
  for (const int cpu : left) cores_of_node[0].push_back({0, {cpu}});
  std::vector<CpuCore> result;
  for (const auto& [node, cores] : cores_of_node) result.insert(result.end(), cores.begin(), cores.end());
  return result;
}

std::vector<CpuSlot> bind_plan(const std::string& mode, int ranks) { return bind_plan(mode, ranks, usable_cores()); }

std::vector<CpuSlot> bind_plan(const std::string& mode, int ranks, const std::vector<CpuCore>& cores) {
  if (mode != "core" && mode != "numa" && mode != "none") {
    fail(Fault::Usage, "unknown binding '" + mode + "'" + proposal(mode, {"core", "numa", "none"}));
  }
  if (ranks < 1) fail(Fault::Usage, "ranks to bind: " + std::to_string(ranks) + ", expected 1 or more");
  if (cores.empty()) fail(Fault::Internal, "no cores to bind to");

  const auto rank_count = static_cast<std::size_t>(ranks);
  std::map<int, std::vector<int>> cpus_of_node;
  for (const auto& core : cores) {
    auto& cpus = cpus_of_node[core.numa_node];
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::vector<const std::vector<int>*> nodes;
  for (const auto& [node, cpus] : cpus_of_node) nodes.push_back(&cpus);

  std::vector<CpuSlot> plan(rank_count);
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    auto& cpus = plan[rank].cpus;
    const auto add = [&cpus](const std::vector<int>& more) { cpus.insert(cpus.end(), more.begin(), more.end()); };
    if (mode == "none") {
      for (const auto* node : nodes) add(*node);
    } else if (mode == "numa" && rank_count <= nodes.size()) {
      const auto [begin, end] = share(nodes.size(), rank_count, rank);
      for (auto i = begin; i < end; ++i) add(*nodes[i]);
    } else if (mode == "numa") {
      // By its share of cores, not of nodes: a cpuset may hold 2 cores of one node and 14 of the other.
      const auto middle = (2 * rank + 1) * cores.size() / (2 * rank_count);
      add(cpus_of_node[cores[middle].numa_node]);
    } else if (rank_count > cores.size()) {
      add(cores[rank % cores.size()].cpus);
    } else {
      const auto [begin, end] = share(cores.size(), rank_count, rank);
      for (auto i = begin; i < end; ++i) add(cores[i].cpus);
    }
    std::sort(cpus.begin(), cpus.end());
  }
  return plan;
}

void bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) fail(Fault::Usage, "cannot bind a thread to no CPU at all");
  const auto [lowest, highest] = std::minmax_element(cpus.begin(), cpus.end());
  if (*lowest < 0) fail(Fault::Usage, "cannot bind a thread to CPU " + std::to_string(*lowest));
  const CpuSet set(CPU_ALLOC(*highest + 1));
  const auto bytes = CPU_ALLOC_SIZE(*highest + 1);
  if (!set) fail(Fault::Internal, "no memory for a CPU set");
  CPU_ZERO_S(bytes, set.get());
  std::vector<std::string> names;
  for (const int cpu : cpus) {
    CPU_SET_S(cpu, bytes, set.get());
    names.push_back(std::to_string(cpu));
  }
  if (sched_setaffinity(0, bytes, set.get()) != 0)
    fail_errno("cannot bind a thread to CPUs " + join(names, ","), errno);
}

std::string cpu_maker() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_is("intel")) return "intel";
  if (__builtin_cpu_is("amd")) return "amd";
#endif
  return "other";
}

const Machine& machine() {
  static const Machine result = read_machine();
  return result;
}

}  // namespace lockstep
