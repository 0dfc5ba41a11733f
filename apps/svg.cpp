#include "svg.h"

#include <cmath>

#include <fmt/format.h>

namespace lockstep::apps::svg {
namespace {

constexpr double kWidth = 860, kHeight = 480;

}  // namespace

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

double Axis::scaled(double value) const { return scale_ == Scale::Linear ? value : std::log10(value); }

std::vector<double> ticks_of(Scale scale, const Range& values) {
  std::vector<double> ticks;
  if (scale == Scale::Logarithmic) {
    for (double power = std::floor(std::log10(values.low)); power <= std::ceil(std::log10(values.high) + 1e-9); ++power)
      ticks.push_back(std::pow(10, power));
    return ticks;
  }
  constexpr double kMost = 6;
  double step = std::pow(10, std::floor(std::log10(values.high / kMost)));
  for (const double larger : {2.0, 2.5, 2.0}) {
    if (values.high / step > kMost) step *= larger;
  }
  for (int number = 0; ticks.empty() || ticks.back() < values.high; ++number) ticks.push_back(number * step);
  return ticks;
}

std::string frame(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333333\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      width, height);
}

std::string head(const std::string& title) {
  return frame(kWidth, kHeight) + text_at(kLeft, 30, "start", title, " font-size=\"16\" font-weight=\"bold\"");
}

std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* extra) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, extra,
                     escaped(text));
}

std::string filled(double x, double y, double width, double height, const std::string& color) {
  return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y, width,
                     height, color);
}

std::string straight(double x1, double y1, double x2, double y2, const Style& style) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
      "stroke-width=\"{}\" stroke-dasharray=\"{}\"/>\n",
      x1, y1, x2, y2, style.color, style.width, style.dashes);
}

std::string curve(const std::vector<std::pair<double, double>>& points, const Axis& x, const Axis& y,
                  const Style& style) {
  constexpr std::size_t kMostDots = 50;
  std::string corners, dots;
  for (const auto& [place, value] : points) {
    corners += fmt::format("{:.1f},{:.1f} ", x(place), y(value));
    if (points.size() > kMostDots) continue;
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"{}\"/>\n", x(place), y(value), style.color);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-dasharray=\"{}\" stroke-linejoin=\"round\"/>\n{}",
      corners, style.color, style.width, style.dashes, dots);
}

std::string legend(std::size_t number, const Style& style, const std::string& text) {
  const double y = kTop + 8 + static_cast<double>(number) * kLegendStep;
  return straight(kLegendLeft, y, kLegendLeft + 26, y, style) + text_at(kLegendLeft + 34, y + 4, "start", text);
}

}  // namespace lockstep::apps::svg
