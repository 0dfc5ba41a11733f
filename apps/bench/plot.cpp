#include "bench/plot.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/text.h"
#include "svg.h"

namespace lockstep::apps {
namespace {

using namespace svg;

/// One line of the picture.
struct Line {
  Participant participant;
  std::string work;  // "" where all do the same
};

bool over_cores(const Report& report) {
  const auto& all = report.all();
  return std::all_of(all.begin(), all.end(), [](const Series& series) { return series.workload.bytes == 0; });
}

std::vector<Line> lines_of(const Report& report) {
  std::vector<std::string> works;
  for (const auto& workload : report.workloads()) {
    if (std::find(works.begin(), works.end(), workload.name) == works.end()) works.push_back(workload.name);
  }
  if (!over_cores(report) || works.size() == 1) works = {""};
  std::vector<Line> lines;
  for (const auto& work : works) {
    for (const auto& participant : report.participants()) lines.push_back({participant, work});
  }
  return lines;
}

/// Blue is ours. Colours tell participants apart, dashes what they do and our own variants.
std::vector<Style> styles_of(const std::vector<Line>& lines) {
  constexpr const char* kDashes[] = {"none", "7 4", "12 4 2 4", "3 3"};
  std::vector<Style> styles;
  std::vector<std::string> works, ours, peers;
  const auto number_of = [](std::vector<std::string>& all, const std::string& one) {
    const auto found = std::find(all.begin(), all.end(), one);
    const auto number = static_cast<std::size_t>(found - all.begin());
    if (found == all.end()) all.push_back(one);
    return number;
  };
  for (const auto& [participant, work] : lines) {
    const std::size_t dashes = number_of(works, work);
    if (participant.who == kOurs) {
      const std::size_t line = number_of(ours, work + " " + participant.variant);
      styles.push_back({kBlue, line < std::size(kDashes) ? 3.0 : 1.8, kDashes[line % std::size(kDashes)]});
    } else if (participant.who == kCeiling) {
      styles.push_back({kGrey, 1.5, dashes == 0 ? "2 3" : kDashes[dashes % std::size(kDashes)]});
    } else {
      const std::size_t color = number_of(peers, label(participant));
      styles.push_back({kOtherColors[color % std::size(kOtherColors)], 1.8, kDashes[dashes % std::size(kDashes)]});
    }
  }
  return styles;
}

/// Where a workload lies on the axis; 0: nowhere.
double place_of(const Report& report, const Workload& workload) {
  return over_cores(report) ? workload.cores() : static_cast<double>(workload.bytes);
}

std::string place_name(const Report& report) {
  if (!over_cores(report)) return "bytes per rank";
  const auto& all = report.all();
  const bool threads = std::any_of(all.begin(), all.end(), [](const auto& one) { return one.workload.threads > 1; });
  return threads ? "cores" : "ranks";
}

std::vector<std::pair<double, double>> points_of(const Report& report, const Line& line) {
  std::vector<std::pair<double, double>> points;
  for (const auto& series : report.all()) {
    const double place = place_of(report, series.workload);
    const bool same_work = line.work.empty() || line.work == series.workload.name;
    if (series.participant == line.participant && same_work && place > 0 && !series.seconds.empty()) {
      points.emplace_back(place, median(series.seconds));
    }
  }
  std::sort(points.begin(), points.end());
  return points;
}

std::string grid(const Report& report, const Axis& x, const Axis& y, const std::vector<double>& ticks) {
  std::string out;
  for (const auto& workload : report.workloads()) {
    const double place = place_of(report, workload);
    if (place == 0) continue;
    out += straight(x(place), kTop, x(place), kBottom, kFaint) +
           text_at(x(place), kBottom + 20, "middle",
                   workload.bytes > 0 ? format_bytes(workload.bytes) : std::to_string(workload.cores()));
  }
  for (const double tick : ticks) {
    out += straight(kLeft, y(tick), kRight, y(tick), kFaint) +
           text_at(kLeft - 8, y(tick) + 4, "end", tick == 0 ? "0" : format_seconds(tick));
  }
  return out;
}

}  // namespace

std::string svg_plot(const Report& report, const std::string& title) {
  Range places, seconds;
  const auto lines = lines_of(report);
  for (const auto& line : lines) {
    for (const auto& [place, time] : points_of(report, line)) {
      places.include(place);
      seconds.include(time);
    }
  }
  std::string out = head(title);
  if (places.high == 0) return out + text_at(kLeft, kTop + 20, "start", "nothing was measured") + kEnd;

  // A little room left and right. Times of one size show how they grow.
  constexpr double kOneSize = 20;
  const bool linear = over_cores(report) && seconds.high <= kOneSize * seconds.low;
  const Scale scale = linear ? Scale::Linear : Scale::Logarithmic;
  const auto ticks = ticks_of(scale, seconds);
  const Axis x(Scale::Logarithmic, places.low / 1.5, places.high * 1.5, kLeft, kRight);
  const Axis y(scale, ticks.front(), ticks.back(), kBottom, kTop);
  out += grid(report, x, y, ticks);
  out += text_at((kLeft + kRight) / 2, kBottom + 44, "middle", place_name(report));
  out += text_at(kLeft, kTop - 8, "end", "median time");

  const auto styles = styles_of(lines);
  // Backwards: ours come first in the report and lie on top in the picture.
  for (std::size_t i = lines.size(); i-- > 0;) out += curve(points_of(report, lines[i]), x, y, styles[i]);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [participant, work] = lines[i];
    out += legend(i, styles[i], label(participant) + (work.empty() ? "" : ", " + work));
  }
  return out + kEnd;
}

}  // namespace lockstep::apps
