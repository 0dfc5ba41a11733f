#include "bench/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr int kLabelWidth = 20;
constexpr int kCellWidth = 12;

std::string rate(const Series& series) {
  if (series.workload.bytes == 0) return "";
  return fmt::format("{:.2f}", static_cast<double>(series.workload.bytes) / median(series.seconds) / 1e9);
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

std::string line(const std::string& size, const std::string& who, const std::string& median_time,
                 const std::string& p95, const std::string& gb_per_s, const std::string& over,
                 const std::string& ratio) {
  return fmt::format("{:<14}{:<{}}{:>{}}{:>{}}{:>9}{:>14}{}{}\n", size, who, kLabelWidth, median_time, kCellWidth, p95,
                     kCellWidth, gb_per_s, over, ratio.empty() ? "" : "  ", ratio);
}

}  // namespace

std::string heading(const Workload& workload) {
  if (workload.bytes > 0) return format_bytes(workload.bytes);
  return workload.ranks == 1 ? workload.name : fmt::format("{} x {}", workload.name, workload.ranks);
}

std::string medians_table(const Report& report) {
  const auto workloads = report.workloads();
  std::string text = fmt::format("{:<{}}", "median", kLabelWidth);
  for (const auto& workload : workloads) text += fmt::format("{:>{}}", heading(workload), kCellWidth);
  text += '\n';
  for (const auto& participant : report.participants()) {
    text += fmt::format("{:<{}}", label(participant), kLabelWidth);
    for (const auto& workload : workloads) {
      const auto* series = report.find(participant, workload);
      text += fmt::format("{:>{}}", series != nullptr ? format_seconds(median(series->seconds)) : "-", kCellWidth);
    }
    text += '\n';
  }
  return text;
}

std::string full_table(const Report& report) {
  std::string text = line("", "", "median", "p95", "GB/s", "over ceiling", "ratio");
  const auto ratios = report.ratios();
  for (const auto& workload : report.workloads()) {
    std::string first_column = heading(workload);
    for (const auto& participant : report.participants()) {
      const auto* series = report.find(participant, workload);
      if (series == nullptr) continue;
      text += line(first_column, label(participant), format_seconds(median(series->seconds)),
                   format_seconds(percentile(series->seconds, 95)), rate(*series), over_ceiling(report, *series),
                   comparison(ratios, *series));
      first_column.clear();
    }
  }
  for (const auto& skipped : report.skipped()) text += fmt::format("skipped {}: {}\n", skipped.who, skipped.reason);
  return text;
}

std::string markdown_table(const Report& report) {
  const auto workloads = report.workloads();
  const auto ratios = report.ratios();
  const auto row = [&](const std::string& first, const auto& cell) {
    std::string text = "| " + first + " |";
    for (const auto& workload : workloads) text += fmt::format(" {} |", cell(workload));
    return text + "\n";
  };
  std::string text = row("median", heading) + row("---", [](const Workload&) { return "---"; });
  for (const auto& participant : report.participants()) {
    text += row(label(participant), [&](const Workload& workload) {
      const auto* series = report.find(participant, workload);
      return series != nullptr ? format_seconds(median(series->seconds)) : "-";
    });
  }
  for (const auto& participant : report.participants()) {
    if (participant.who != kOurs) continue;
    text += row("**ratio, " + label(participant) + "**", [&](const Workload& workload) {
      const auto* series = report.find(participant, workload);
      const std::string ratio = series != nullptr ? comparison(ratios, *series) : "";
      return ratio.empty() ? "-" : "**" + ratio + "**";
    });
    const auto over = [&](const Workload& workload) {
      const auto* series = report.find(participant, workload);
      const std::string cell = series != nullptr ? over_ceiling(report, *series) : "";
      return cell.empty() ? std::string("-") : cell;
    };
    if (std::any_of(workloads.begin(), workloads.end(), [&](const Workload& one) { return over(one) != "-"; })) {
      text += row("time over ceiling, " + label(participant), over);
    }
  }
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
