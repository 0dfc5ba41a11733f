// apps/bench/plot.h
//
// A Report as a picture: median time over bytes or, where nothing has a size, over ranks or cores.
// Over ranks or cores the axis of time begins at 0 if times are of one size; else both axes are
// logarithmic. One line per participant and kind of work.
#pragma once

#include <string>

#include "bench/report.h"

namespace lockstep::apps {

/// A whole SVG file. Where there are sizes, workloads without one have no place on the axis and are left out.
std::string svg_plot(const Report& report, const std::string& title);

}  // namespace lockstep::apps
