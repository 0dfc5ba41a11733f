#include "lockstep/core/log.h"

#include <cstdlib>
#include <string>

#include <spdlog/sinks/stdout_color_sinks.h>

namespace lockstep {
namespace {

void set_pattern(spdlog::logger& logger, const std::string& prefix) {
  logger.set_pattern(prefix + "%H:%M:%S.%e %^%l%$ %v");
}

spdlog::logger* make_logger() {
  auto* logger = new spdlog::logger("lockstep", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  set_pattern(*logger, "");
  logger->flush_on(spdlog::level::trace);
  const char* wanted = std::getenv("LOCKSTEP_LOG");
  if (wanted == nullptr || *wanted == '\0') return logger;
  const auto level = spdlog::level::from_str(wanted);
  // from_str answers "off" to any unknown word: a typo would silence every warning.
  if (level == spdlog::level::off && std::string(wanted) != "off") {
    logger->warn("LOCKSTEP_LOG is '{}', expected trace, debug, info, warn, error or off; using info", wanted);
  } else {
    logger->set_level(level);
  }
  return logger;
}

}  // namespace

spdlog::logger& log() {
  // Never destroyed: threads and other static objects may log until the very end.
  static spdlog::logger* const logger = make_logger();
  return *logger;
}

void set_log_rank(int rank, int size) {
  // Right-aligned, so that the lines of all ranks stand in one column.
  set_pattern(log(), fmt::format("[{:>{}}] ", rank, fmt::formatted_size("{}", size > 0 ? size - 1 : 0)));
}

}  // namespace lockstep
