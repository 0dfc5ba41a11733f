// apps/chart.h
//
// Curves over whole numbers as a picture: inertia over clusters, variance over components.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::apps {

struct Chart {
  struct Curve {
    std::string name;
    std::vector<std::pair<double, double>> points;  // by place, which ascends
  };

  std::string title;
  std::string places;  // what the axis of places counts: "clusters"
  std::string values;  // what is shown over them, from 0 on: "inertia"
  std::vector<Curve> curves;
};

/// A whole SVG file; at least one curve has points.
std::string svg_chart(const Chart& chart);

}  // namespace lockstep::apps
