// apps/svg.h
//
// Parts of pictures in SVG: axes, lines, words. All charts have one size, the drawing on
// the left and room for a legend on its right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::apps::svg {

inline constexpr double kLeft = 80, kRight = 660, kTop = 56, kBottom = 420;  // of the drawing
inline constexpr double kLegendLeft = 684, kLegendStep = 24;

// Okabe and Ito's palette, told apart by colour-blind readers too.
inline constexpr const char kBlue[] = "#0072b2";
inline constexpr const char kGrey[] = "#999999";
inline constexpr const char* kOtherColors[] = {"#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8c6d31"};

struct Style {
  const char* color;
  double width;
  const char* dashes;
};
inline constexpr Style kFaint{"#e4e4e4", 1, "none"};

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
  double scaled(double value) const;

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

/// The decades around values that differ by orders of magnitude, else round numbers from 0 to above the highest.
std::vector<double> ticks_of(Scale scale, const Range& values);

/// What a file begins with; it ends with kEnd.
std::string frame(double width, double height);
/// The same of a chart.
std::string head(const std::string& title);
inline constexpr const char kEnd[] = "</svg>\n";

/// As XML takes it.
std::string escaped(const std::string& text);
std::string text_at(double x, double y, const char* anchor, const std::string& text, const char* extra = "");
std::string filled(double x, double y, double width, double height, const std::string& color);
std::string straight(double x1, double y1, double x2, double y2, const Style& style);
/// From point to point, with a dot on each where there are not many.
std::string curve(const std::vector<std::pair<double, double>>& points, const Axis& x, const Axis& y,
                  const Style& style);
/// A line of the legend, from 0 on.
std::string legend(std::size_t number, const Style& style, const std::string& text);

}  // namespace lockstep::apps::svg
