// apps/train/pipeline_measure.h
//
// How long the stages of a pipeline had nothing to do in a run, by the spans of its trace. Which schedule
// it followed, and over how many micro-batches and chunks, is found by the order of the work.
#pragma once

#include <string>
#include <vector>

#include "lockstep/parallel/pipeline_schedule.h"

namespace lockstep::apps {

struct MeasuredPipeline {
  parallel::PipelineSchedule schedule;
  int steps = 0;             // that were measured
  int incomplete_steps = 0;  // that were not: a part of their work is not in the trace, or had no samples
  /// Of the step that is the median of all by its idle share: whoever else uses the machine lengthens single steps.
  /// By stage, the share of the time from the first forward of the step on any stage to its last backward.
  std::vector<double> idle;
  /// Mean time of a micro-batch in a stage, in seconds. Of a backward that is not split each half is half of it.
  parallel::PipelineCosts costs;

  double idle_in_all() const;
};

/// `trace` is what LOCKSTEP_TRACE names. The first step, in which memory is touched for the first time, is left out if
/// there are others. `stages` of 0: each rank is one; else ranks that follow each other have the same stage, as the
/// usual parallel.order lays them out. Fault::Data if the file holds no steps of a pipeline of so many stages.
MeasuredPipeline measure_pipeline(const std::string& trace, int stages = 0);

}  // namespace lockstep::apps
