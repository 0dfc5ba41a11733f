// lockstep/core/cpu.h
//
// What this process may use of the machine: its cpuset, the quota of its cgroup,
// caches and NUMA nodes. Never the whole machine when a container or a batch
// system gave us a part of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Logical CPUs this process may run on, ascending.
std::vector<int> usable_cpus();
/// CPUs' worth of time the cgroup (v1 or v2) grants; the number of usable_cpus() if unlimited.
double cpu_quota();
/// Threads one of `ranks_on_host` ranks should use: at least 1, no oversubscription. Divides the
/// cpuset of the calling thread, so call it before bind_to(), or with 1 after.
int fair_threads(int ranks_on_host);

/// A physical core: those of its logical CPUs that this process may use.
struct CpuCore {
  int numa_node = 0;
  std::vector<int> cpus;
};
/// By NUMA node, neighbours in the cache hierarchy side by side.
std::vector<CpuCore> usable_cores();

struct CpuSlot {
  std::vector<int> cpus;
};
/// How local ranks are bound: "core" gives each its share of distinct cores, "numa"
/// its NUMA node, "none" everything. More ranks than cores share them in turn.
std::vector<CpuSlot> bind_plan(const std::string& mode, int ranks);
/// The same over given cores, ordered as usable_cores() orders them.
std::vector<CpuSlot> bind_plan(const std::string& mode, int ranks, const std::vector<CpuCore>& cores);
/// Binds the calling thread (and threads it starts later).
void bind_to(const std::vector<int>& cpus);

/// "intel", "amd" or "other": libraries choose kernels by it.
std::string cpu_maker();

struct Machine {
  std::string host;
  std::string cpu_model;
  int packages = 0;
  int cores = 0;
  int cpus = 0;
  int numa_nodes = 0;
  std::int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::string kernel;
};
/// Read once per process (hwloc costs milliseconds).
const Machine& machine();

}  // namespace lockstep
