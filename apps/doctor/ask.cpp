#include "doctor/ask.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  text.erase(0, std::min(text.find_first_not_of(" \t\n"), text.size()));
  return text;
}

}  // namespace

std::string contents(const fs::path& path) {
  std::ifstream stream(path);
  return trimmed({std::istreambuf_iterator<char>(stream), {}});
}

fs::path on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const auto& folder : split(path != nullptr ? path : "", ':')) {
    const auto file = fs::path(folder) / program;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

Outcome ask(const std::string& program, const std::vector<std::string>& arguments) {
  constexpr double kTimeout_s = 5;
  std::vector<std::string> command{on_path(program)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto outcome = run_process(command, kTimeout_s);
  outcome.output = trimmed(outcome.output);
  outcome.errors = trimmed(outcome.errors);
  return outcome;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

fs::path folder_of_loaded(const std::string& prefix) {
  struct Query {
    const std::string& prefix;
    fs::path found;
  } query{prefix, {}};
  dl_iterate_phdr(
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

}  // namespace lockstep::apps
