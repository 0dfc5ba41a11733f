// apps/bench/plot.h
//
// A Report as a picture: median time over bytes, both axes logarithmic, one line
// per participant.
#pragma once

#include <string>

#include "bench/report.h"

namespace lockstep::apps {

/// A whole SVG file. Workloads without a size have no place on the axis and are left out.
std::string svg_plot(const Report& report, const std::string& title);

}  // namespace lockstep::apps
