#include "bench/plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/text.h"

namespace lockstep::apps {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 80, kRight = 660, kTop = 56, kBottom = 420;
constexpr double kLegendLeft = 684, kLegendStep = 24;

// Okabe and Ito's palette, told apart by colour-blind readers too; blue is ours.
constexpr const char* kOurColor = "#0072b2";
constexpr const char* kCeilingColor = "#999999";
constexpr const char* kPeerColors[] = {"#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31"};

struct Style {
  const char* color;
  double width;
  const char* dashes;
};

enum class Scale : std::uint8_t { Linear, Logarithmic };

/// Maps [low, high] to pixels.
class Axis {
 public:
  Axis(Scale scale, double low, double high, double low_pixel, double high_pixel)
      : scale_(scale), low_(scaled(low)), high_(scaled(high)), low_pixel_(low_pixel), high_pixel_(high_pixel) {}
  double operator()(double value) const {
    return low_pixel_ + (scaled(value) - low_) / (high_ - low_) * (high_pixel_ - low_pixel_);
  }

 private:
  double scaled(double value) const { return scale_ == Scale::Linear ? value : std::log10(value); }

  Scale scale_;
  double low_, high_, low_pixel_, high_pixel_;
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// The decades around times that differ by orders of magnitude, else round numbers from 0 to above the highest.
std::vector<double> ticks_of(Scale scale, const Range& seconds) {
  std::vector<double> ticks;
  if (scale == Scale::Logarithmic) {
    for (double power = std::floor(std::log10(seconds.low)); power <= std::ceil(std::log10(seconds.high) + 1e-9);
         ++power)
      ticks.push_back(std::pow(10, power));
    return ticks;
  }
  constexpr double kMost = 6;
  double step = std::pow(10, std::floor(std::log10(seconds.high / kMost)));
  for (const double larger : {2.0, 2.5, 2.0}) {
    if (seconds.high / step > kMost) step *= larger;
  }
  for (int number = 0; ticks.empty() || ticks.back() < seconds.high; ++number) ticks.push_back(number * step);
  return ticks;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* extra = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, extra,
                     escaped(text));
}

std::string straight(double x1, double y1, double x2, double y2, const Style& style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\" stroke-dasharray=\"{}\"/>\n",
      x1, y1, x2, y2, style.color, style.width, style.dashes);
}

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

/// Colours tell participants apart, dashes what they do and our own variants.
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
      styles.push_back({kOurColor, line < std::size(kDashes) ? 3.0 : 1.8, kDashes[line % std::size(kDashes)]});
    } else if (participant.who == kCeiling) {
      styles.push_back({kCeilingColor, 1.5, dashes == 0 ? "2 3" : kDashes[dashes % std::size(kDashes)]});
    } else {
      const std::size_t color = number_of(peers, label(participant));
      styles.push_back({kPeerColors[color % std::size(kPeerColors)], 1.8, kDashes[dashes % std::size(kDashes)]});
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

std::string curve(const std::vector<std::pair<double, double>>& points, const Axis& x, const Axis& y,
                  const Style& style) {
  std::string corners, dots;
  for (const auto& [place, seconds] : points) {
    corners += fmt::format("{:.1f},{:.1f} ", x(place), y(seconds));
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"{}\"/>\n", x(place), y(seconds), style.color);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-dasharray=\"{}\" stroke-linejoin=\"round\"/>\n{}",
      corners, style.color, style.width, style.dashes, dots);
}

std::string grid(const Report& report, const Axis& x, const Axis& y, const std::vector<double>& ticks) {
  const Style faint{"#e4e4e4", 1, "none"};
  std::string out;
  for (const auto& workload : report.workloads()) {
    const double place = place_of(report, workload);
    if (place == 0) continue;
    out += straight(x(place), kTop, x(place), kBottom, faint) +
           text_at(x(place), kBottom + 20, "middle",
                   workload.bytes > 0 ? format_bytes(workload.bytes) : std::to_string(workload.cores()));
  }
  for (const double tick : ticks) {
    out += straight(kLeft, y(tick), kRight, y(tick), faint) +
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
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  out += text_at(kLeft, 30, "start", title, " font-size=\"16\" font-weight=\"bold\"");
  if (places.high == 0) return out + text_at(kLeft, kTop + 20, "start", "nothing was measured") + "</svg>\n";

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
  double legend = kTop + 8;
  // Backwards: ours come first in the report and lie on top in the picture.
  for (std::size_t i = lines.size(); i-- > 0;) out += curve(points_of(report, lines[i]), x, y, styles[i]);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [participant, work] = lines[i];
    out += straight(kLegendLeft, legend, kLegendLeft + 26, legend, styles[i]);
    out += text_at(kLegendLeft + 34, legend + 4, "start", label(participant) + (work.empty() ? "" : ", " + work));
    legend += kLegendStep;
  }
  return out + "</svg>\n";
}

}  // namespace lockstep::apps
