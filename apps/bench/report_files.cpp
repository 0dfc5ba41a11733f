#include "bench/report_files.h"

#include <nlohmann/json.hpp>

#include "bench/plot.h"
#include "bench/table.h"
#include "json_text.h"
#include "lockstep/core/file.h"

namespace lockstep::apps {

void ReportFiles::add_options(CLI::App& command) {
  command.add_option("--json", json, "Write rows, ratios and what was skipped to this file");
  command.add_option("--plot", plot, "Draw time over bytes or ranks into this SVG file");
  command.add_option("--markdown", markdown, "Write medians and ratios as a table for a document");
}

void ReportFiles::check() const {
  for (const auto& path : {json, plot, markdown}) {
    if (!path.empty()) check_can_write(path);
  }
}

void ReportFiles::write(const Report& report, const std::string& title) const {
  if (!json.empty()) write_whole(json, json_text(report.json()));
  if (!plot.empty()) write_whole(plot, svg_plot(report, title));
  if (!markdown.empty()) write_whole(markdown, markdown_table(report));
}

}  // namespace lockstep::apps
