#include "lockstep/core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "lockstep/core/text.h"

namespace lockstep {
namespace {

struct Mount {
  std::string group;  // the group that stands at the mount point
  std::string point;
};

bool lists(std::string_view names, std::string_view name) {
  const auto all = split(names, ',');
  return std::find(all.begin(), all.end(), name) != all.end();
}

/// The mount of type `type` ("cgroup" or "cgroup2") that carries `controller`.
std::optional<Mount> find_mount(const std::string& root, const std::string& type, std::string_view controller) {
  std::ifstream table(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    // "31 23 0:28 GROUP POINT options [optional fields] - TYPE source super-options"
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream front(line.substr(0, dash)), back(line.substr(dash + 3));
    std::string skip, found_type, options;
    Mount mount;
    if (!(front >> skip >> skip >> skip >> mount.group >> mount.point)) continue;
    if (!(back >> found_type >> skip >> options) || found_type != type) continue;
    if (type == "cgroup2" || lists(options, controller)) return mount;
  }
  return std::nullopt;
}

std::optional<double> cpus_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  std::istringstream number(quota);
  double microseconds = 0;
  if (!(number >> microseconds) || microseconds <= 0) return std::nullopt;
  return microseconds / period;
}

std::optional<double> cpus_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> read_bytes(const std::string& path) {
  std::ifstream file(path);
  double bytes = 0;
  // "max" is no number, and version 1 writes "no limit" as the largest multiple of a page.
  constexpr double kNoLimit = 0x1p60;
  if (!(file >> bytes) || bytes <= 0 || bytes >= kNoLimit) return std::nullopt;
  return bytes;
}
std::optional<double> memory_v2(const std::string& folder) { return read_bytes(folder + "/memory.max"); }
std::optional<double> memory_v1(const std::string& folder) { return read_bytes(folder + "/memory.limit_in_bytes"); }

void tighten(std::optional<double>& limit, std::optional<double> found) {
  if (found) limit = limit ? std::min(*limit, *found) : found;
}

/// The tightest limit from the process's group up to the mount point.
template <class Read>
std::optional<double> tightest(const std::string& root, const Mount& mount, std::string group, Read read) {
  // A container sees its own group at the mount point, while /proc may name it from the host's root.
  if (mount.group != "/" && (group + '/').starts_with(mount.group + '/')) group.erase(0, mount.group.size());
  std::optional<double> limit;
  for (;;) {
    if (group == "/") group.clear();
    tighten(limit, read(root + mount.point + group));
    if (group.empty()) return limit;
    group.erase(std::min(group.rfind('/'), group.size() - 1));
  }
}

/// The tightest limit on `controller` in all hierarchies this process is in.
template <class ReadV1, class ReadV2>
std::optional<double> limit_of(const std::string& root, std::string_view controller, ReadV1 read_v1, ReadV2 read_v2) {
  std::optional<double> limit;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "4:cpu,cpuacct:/group" in version 1, "0::/group" in version 2; hosts may mix both.
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const auto group = line.substr(second + 1);
    if (controllers.empty()) {
      if (const auto mount = find_mount(root, "cgroup2", controller)) {
        tighten(limit, tightest(root, *mount, group, read_v2));
      }
    } else if (lists(controllers, controller)) {
      if (const auto mount = find_mount(root, "cgroup", controller)) {
        tighten(limit, tightest(root, *mount, group, read_v1));
      }
    }
  }
  return limit;
}

}  // namespace

std::optional<double> cgroup_cpu_limit(const std::string& root) { return limit_of(root, "cpu", cpus_v1, cpus_v2); }

std::optional<std::int64_t> cgroup_memory_limit(const std::string& root) {
  const auto bytes = limit_of(root, "memory", memory_v1, memory_v2);
  return bytes ? std::optional(static_cast<std::int64_t>(*bytes)) : std::nullopt;
}

}  // namespace lockstep
