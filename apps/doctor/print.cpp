// The findings for people and for scripts.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doctor/findings.h"
#include "lockstep/core/cgroup.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/version.h"

namespace lockstep::apps {

std::string counted(std::int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
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
  if (const auto limit = cgroup_memory_limit()) result["machine"]["memory_limit_bytes"] = *limit;
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
  const bool colours = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
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

}  // namespace lockstep::apps
