#include "chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "svg.h"

namespace lockstep::apps {
namespace {

svg::Style style_of(std::size_t curve) {
  if (curve == 0) return {svg::kBlue, 3, "none"};
  return {svg::kOtherColors[(curve - 1) % std::size(svg::kOtherColors)], 1.8, "none"};
}

/// Whole numbers, at most some of them, a round number apart.
std::vector<double> places_of(const svg::Range& range) {
  constexpr double kMost = 20;
  std::int64_t step = 1;
  for (int i = 0; (range.high - range.low) / static_cast<double>(step) > kMost; ++i)
    step = step * (i % 3 == 1 ? 5 : 4) / 2;
  std::vector<double> places;
  for (auto place = static_cast<std::int64_t>(std::ceil(range.low)); static_cast<double>(place) <= range.high;
       ++place) {
    if (place % step == 0 || step == 1) places.push_back(static_cast<double>(place));
  }
  return places;
}

}  // namespace

std::string svg_chart(const Chart& chart) {
  svg::Range places, values;
  for (const auto& curve : chart.curves) {
    for (const auto& [place, value] : curve.points) {
      places.include(place);
      values.include(value);
    }
  }
  const auto ticks = svg::ticks_of(svg::Scale::Linear, {0, values.high > 0 ? values.high : 1});
  // A little room left and right.
  const double room = std::max((places.high - places.low) * 0.03, 0.5);
  const svg::Axis x(svg::Scale::Linear, places.low - room, places.high + room, svg::kLeft, svg::kRight);
  const svg::Axis y(svg::Scale::Linear, ticks.front(), ticks.back(), svg::kBottom, svg::kTop);
  std::string out = svg::head(chart.title);
  for (const double place : places_of(places)) {
    out += svg::straight(x(place), svg::kTop, x(place), svg::kBottom, svg::kFaint) +
           svg::text_at(x(place), svg::kBottom + 20, "middle", fmt::format("{:g}", place));
  }
  for (const double tick : ticks) {
    out += svg::straight(svg::kLeft, y(tick), svg::kRight, y(tick), svg::kFaint) +
           svg::text_at(svg::kLeft - 8, y(tick) + 4, "end", fmt::format("{:g}", tick));
  }
  out += svg::text_at((svg::kLeft + svg::kRight) / 2, svg::kBottom + 44, "middle", chart.places);
  out += svg::text_at(svg::kLeft, svg::kTop - 8, "end", chart.values);
  for (std::size_t i = chart.curves.size(); i-- > 0;) out += svg::curve(chart.curves[i].points, x, y, style_of(i));
  for (std::size_t i = 0; i < chart.curves.size(); ++i) out += svg::legend(i, style_of(i), chart.curves[i].name);
  return out + svg::kEnd;
}

}  // namespace lockstep::apps
