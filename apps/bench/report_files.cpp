#include "bench/report_files.h"

#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/plot.h"
#include "bench/table.h"
#include "lockstep/core/error.h"

namespace lockstep::apps {

void ReportFiles::add_options(CLI::App& command) {
  command.add_option("--json", json, "Write rows, ratios and what was skipped to this file");
  command.add_option("--plot", plot, "Draw time over bytes into this SVG file");
  command.add_option("--markdown", markdown, "Write medians and ratios as a table for a document");
}

void ReportFiles::check() const {
  namespace fs = std::filesystem;
  for (const auto& path : {json, plot, markdown}) {
    if (path.empty()) continue;
    const fs::path folder = fs::absolute(path).parent_path();
    if (fs::is_directory(path) || access(folder.c_str(), W_OK | X_OK) != 0) {
      fail(Fault::Usage, fmt::format("cannot write {}: name a file in a folder that exists and is yours", path));
    }
  }
}

void ReportFiles::write(const Report& report, const std::string& title) const {
  if (!json.empty()) write_text(json, report.json().dump(2) + "\n");
  if (!plot.empty()) write_text(plot, svg_plot(report, title));
  if (!markdown.empty()) write_text(markdown, markdown_table(report));
}

}  // namespace lockstep::apps
