// tests/fuzz/config_fuzz.cpp
//
// Feeds any text to Config. The first line is a setting from the command line, the
// rest a recipe. What is accepted must survive being written out and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/core/config.h"
#include "lockstep/core/error.h"

namespace {

using namespace lockstep;

template <class Work>
void only_usage_errors(Work work) {
  try {
    work();
  } catch (const Error& e) {
    if (e.fault() != Fault::Usage || e.message().empty()) std::abort();
  }
}

void read_all(const Config& config, const std::string& table) {
  for (const auto& name : config.keys(table)) {
    const auto key = table.empty() ? name : table + '.' + name;
    only_usage_errors([&] { config.get(key, ""); });
    only_usage_errors([&] { config.get(key, 1); });
    only_usage_errors([&] { config.get(key, 1.0); });
    only_usage_errors([&] { config.get(key, std::vector<double>{}); });
    only_usage_errors([&] { config.get(key, std::vector<std::string>{}); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto line_end = std::min(text.find('\n'), text.size());
  only_usage_errors([&] {
    auto config = Config::from_text(text.substr(std::min(line_end + 1, text.size())), "fuzz");
    only_usage_errors([&] { config.set(text.substr(0, line_end)); });
    only_usage_errors([&] { config.finish(); });
    read_all(config, "");
    only_usage_errors([&] { read_all(config, "optimizer"); });
    if (nlohmann::json::parse(config.json()).is_discarded()) std::abort();
    const auto written = config.toml();
    const auto again = [&] {
      try {
        return Config::from_text(written, "written");
      } catch (const Error&) {
        std::abort();
      }
    }();
    if (again.toml() != written) std::abort();
  });
  return 0;
}
