// apps/doctor/findings.h
//
// What `lockstep doctor` finds, and those who look. Each only looks, adds what it saw in
// the order of the report, and takes seconds at most, also where a cluster does not answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::apps {

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

void look_at_host(Findings& findings);
void look_at_memory(Findings& findings);
void look_at_torch(Findings& findings);
void look_at_mpi(Findings& findings);
void look_at_slurm(Findings& findings);
void look_at_cuda(Findings& findings);

nlohmann::json to_json(const Findings& findings);
/// For people, on standard output.
void print(const Findings& findings);

/// "1 core", "2 cores".
std::string counted(std::int64_t count, const char* noun);

}  // namespace lockstep::apps
