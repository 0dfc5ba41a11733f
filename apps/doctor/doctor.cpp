// `lockstep doctor`: what Lockstep found on this host, and what to do about what it did
// not find. It only looks, and always ends with exit code 0.
#include <memory>

#include <fmt/format.h>

#include "commands.h"
#include "doctor/findings.h"
#include "json_text.h"

namespace lockstep::apps {

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
