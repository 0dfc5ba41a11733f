#include "bench/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr std::size_t kCellWidth = 12;

/// In GB/s.
std::string rate(const Series& series) {
  const double bytes = bytes_per_s(series);
  return bytes == 0 ? "" : fmt::format("{:.2f}", bytes / 1e9);
}

/// With the peer that is the fastest.
std::string comparison(const std::vector<Ratio>& ratios, const Series& series) {
  for (const auto& ratio : ratios) {
    if (ratio.ours == series.participant && ratio.workload == series.workload) {
      return fmt::format("{:.2f} x {}", ratio.ratio, ratio.best_peer);
    }
  }
  return "";
}

std::string over_ceiling(const Report& report, const Series& series) {
  const auto over = report.over_ceiling(series);
  return over ? fmt::format("{:.2f}", *over) : "";
}

/// Of a column, as wide as what stands in it.
std::size_t width_of(const std::vector<std::string>& texts, std::size_t least) {
  for (const auto& text : texts) least = std::max(least, text.size() + 2);
  return least;
}
std::size_t width_of(const std::vector<Workload>& workloads, std::size_t least) {
  std::vector<std::string> headings;
  for (const auto& workload : workloads) headings.push_back(heading(workload));
  return width_of(headings, least);
}
std::size_t width_of(const std::vector<Participant>& participants) {
  constexpr std::size_t kLeast = 20;
  std::vector<std::string> labels;
  for (const auto& participant : participants) labels.push_back(label(participant));
  return width_of(labels, kLeast);
}

std::string line(const std::string& head, const std::string& median_time, const std::string& p95,
                 const std::string& gb_per_s, const std::string& over, const std::string& ratio) {
  return fmt::format("{}{:>{}}{:>{}}{:>9}{:>14}{}{}\n", head, median_time, kCellWidth, p95, kCellWidth, gb_per_s, over,
                     ratio.empty() ? "" : "  ", ratio);
}

/// Of a table in Markdown: what stands in it for each workload, "-" for nothing.
struct Row {
  std::string name;
  std::vector<std::string> cells;
  bool empty() const {
    return std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell == "-"; });
  }
};

/// Columns become rows.
std::vector<Row> on_its_side(const std::vector<Row>& rows) {
  std::vector<Row> result;
  for (std::size_t column = 0; column < rows[0].cells.size(); ++column) {
    result.push_back({rows[0].cells[column], {}});
    for (std::size_t row = 1; row < rows.size(); ++row) result.back().cells.push_back(rows[row].cells[column]);
  }
  Row names{rows[0].name, {}};
  for (std::size_t row = 1; row < rows.size(); ++row) names.cells.push_back(rows[row].name);
  result.insert(result.begin(), names);
  return result;
}

}  // namespace

std::string heading(const Workload& workload) {
  if (workload.bytes > 0) return format_bytes(workload.bytes);
  return workload.cores() == 1 ? workload.name : fmt::format("{} x {}", workload.name, workload.cores());
}

std::string medians_table(const Report& report) {
  const auto workloads = report.workloads();
  const std::size_t width = width_of(workloads, kCellWidth), label_width = width_of(report.participants());
  std::string text = fmt::format("{:<{}}", "median", label_width);
  for (const auto& workload : workloads) text += fmt::format("{:>{}}", heading(workload), width);
  text += '\n';
  for (const auto& participant : report.participants()) {
    text += fmt::format("{:<{}}", label(participant), label_width);
    for (const auto& workload : workloads) {
      const auto* series = report.find(participant, workload);
      text += fmt::format("{:>{}}", series != nullptr ? format_seconds(median(series->seconds)) : "-", width);
    }
    text += '\n';
  }
  return text;
}

std::string full_table(const Report& report) {
  constexpr std::size_t kLeastWidth = 14;
  const auto workloads = report.workloads();
  const auto head = [of_first = width_of(workloads, kLeastWidth), of_labels = width_of(report.participants())](
                        const std::string& first, const std::string& who) {
    return fmt::format("{:<{}}{:<{}}", first, of_first, who, of_labels);
  };
  std::string text = line(head("", ""), "median", "p95", "GB/s", "over ceiling", "ratio");
  const auto ratios = report.ratios();
  for (const auto& workload : workloads) {
    std::string first_column = heading(workload);
    for (const auto& participant : report.participants()) {
      const auto* series = report.find(participant, workload);
      if (series == nullptr) continue;
      text += line(head(first_column, label(participant)), format_seconds(median(series->seconds)),
                   format_seconds(percentile(series->seconds, 95)), rate(*series), over_ceiling(report, *series),
                   comparison(ratios, *series));
      first_column.clear();
    }
  }
  for (const auto& skipped : report.skipped()) text += fmt::format("skipped {}: {}\n", skipped.who, skipped.reason);
  return text;
}

std::string markdown_table(const Report& report) {
  constexpr std::size_t kMostColumns = 8;
  const auto workloads = report.workloads();
  const auto ratios = report.ratios();
  std::vector<Row> rows = {{"median", {}}};
  for (const auto& workload : workloads) rows[0].cells.push_back(heading(workload));
  const auto add = [&](const Participant& participant, const std::string& name, const auto& cell) {
    Row row{name, {}};
    for (const auto& workload : workloads) {
      const auto* series = report.find(participant, workload);
      const std::string text = series != nullptr ? cell(*series) : "";
      row.cells.push_back(text.empty() ? "-" : text);
    }
    if (!row.empty()) rows.push_back(row);
  };
  for (const auto& who : report.participants()) {
    add(who, label(who), [](const Series& series) { return format_seconds(median(series.seconds)); });
  }
  for (const auto& who : report.participants()) {
    if (who.who != kOurs) continue;
    add(who, "**ratio, " + label(who) + "**", [&](const Series& series) {
      const std::string ratio = comparison(ratios, series);
      return ratio.empty() ? "" : "**" + ratio + "**";
    });
    add(who, "time over ceiling, " + label(who), [&](const Series& series) { return over_ceiling(report, series); });
  }
  for (const auto& who : report.participants()) {
    add(who, "GB/s, " + label(who), [](const Series& series) { return series.bytes_per_call ? rate(series) : ""; });
  }
  if (workloads.size() > kMostColumns) rows = on_its_side(rows);
  rows.insert(rows.begin() + 1, {"---", std::vector<std::string>(rows[0].cells.size(), "---")});
  std::string text;
  for (const auto& row : rows) text += fmt::format("| {} | {} |\n", row.name, join(row.cells, " | "));
  return text;
}

LiveTable::LiveTable(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {}

// A line that wraps or a table higher than the screen could not be drawn over.
bool LiveTable::fits(const std::string& text) const {
  winsize size{};
  if (ioctl(fileno(out_), TIOCGWINSZ, &size) != 0) return false;
  const auto lines = split(text, '\n');
  const auto widest =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return widest->size() < size.ws_col && lines.size() < size.ws_row;
}

void LiveTable::update(const Report& report, const std::string& doing) {
  const std::string text = medians_table(report) + doing + "\n";
  if (!terminal_ || !fits(text)) {
    fmt::print(out_, "{}\n", doing);
  } else {
    clear();
    fmt::print(out_, "{}", text);
    drawn_lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
  std::fflush(out_);
}

void LiveTable::clear() {
  if (drawn_lines_ > 0) fmt::print(out_, "\x1b[{}A\x1b[J", drawn_lines_);
  drawn_lines_ = 0;
}

}  // namespace lockstep::apps
