// apps/train/pipeline_drawing.h
//
// A timeline as a picture: a lane per stage, time to the right, a box per action. Colours tell the
// kinds of work apart, shades the chunks, numbers the micro-batches; where a lane is empty its stage
// is idle.
#pragma once

#include <string>

#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::apps {

/// A whole SVG file. A box too small for its number has none; pointing at a box tells what it is.
std::string pipeline_svg(const parallel::PipelineTimeline& timeline, const std::string& title);

}  // namespace lockstep::apps
