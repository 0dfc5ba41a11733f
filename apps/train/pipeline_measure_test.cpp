#include "train/pipeline_measure.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/error.h"
#include "lockstep/core/testing.h"

namespace lockstep::apps {
namespace {

using parallel::make_pipeline_schedule;
using parallel::PipelineWork;

const char* span_of(PipelineWork work) {
  if (work == PipelineWork::Forward) return "forward of a stage";
  return work == PipelineWork::WeightGradient ? "weight gradients of a stage" : "backward of a stage";
}

/// A trace of `steps` steps that went as a schedule says, on `copies` ranks of each stage; the last lacks its end on
/// the last rank if it is `torn`. Step `disturbed` ends later on rank 0, by as long as a step takes.
std::string trace_of(const parallel::PipelineSchedule& schedule, const parallel::PipelineCosts& costs, int steps,
                     int copies = 1, bool torn = false, int disturbed = -1) {
  const auto times = parallel::timeline(schedule, costs);
  const double makespan_us = 1e6 * parallel::makespan(times), step_us = 2 * makespan_us + 500;
  std::string events;
  const auto add = [&](int rank, const char* name, double begin_us, double duration_us, int argument) {
    events += fmt::format(R"({}{{"pid":{},"tid":0,"ts":{},"name":"{}","ph":"X","dur":{},"args":{{"bytes":{}}}}})",
                          events.empty() ? "" : ",\n", rank, begin_us, name, duration_us, argument);
  };
  const int ranks = schedule.stages * copies;
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const double begin = step * step_us;
      add(rank, "step", begin, step_us, 0);
      auto list = times[static_cast<std::size_t>(rank / copies)];
      if (torn && step + 1 == steps && rank + 1 == ranks) list.pop_back();
      if (step == disturbed && rank == 0) list.back().end += 1e-6 * makespan_us;
      for (const auto& [action, from, to] : list)
        add(rank, span_of(action.work), begin + 100 + 1e6 * from, 1e6 * (to - from), action.micro_batch + 1);
    }
  }
  return R"({"traceEvents":[)" + events + "]}";
}

TEST(PipelineMeasure, FindsTheScheduleAndItsBubble) {
  const test::TemporaryFolder folder;
  const parallel::PipelineCosts costs{0.003, 0.002, 0.002};
  for (const std::string name : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    for (const int copies : {1, 2}) {
      const auto schedule = make_pipeline_schedule(name, 4, 8, name == "interleaved" ? 2 : 1);
      const auto trace = folder.write("trace.json", trace_of(schedule, costs, 3, copies));
      const auto measured = measure_pipeline(trace, copies == 1 ? 0 : 4);
      EXPECT_EQ(measured.schedule.name, name);
      EXPECT_EQ(measured.schedule.chunks, schedule.chunks);
      EXPECT_EQ(measured.schedule.micro_batches, 8);
      EXPECT_EQ(measured.steps, 2);
      EXPECT_NEAR(measured.idle_in_all(), parallel::bubble_share(parallel::timeline(schedule, costs)), 1e-9) << name;
      EXPECT_NEAR(measured.costs.forward, costs.forward, 1e-9);
      EXPECT_NEAR(measured.costs.input_gradient, costs.input_gradient, 1e-9);
      EXPECT_NEAR(measured.costs.weight_gradient, costs.weight_gradient, 1e-9);
    }
  }
}

TEST(PipelineMeasure, LeavesOutStepsThatAreNotWhole) {
  const test::TemporaryFolder folder;
  const auto trace = folder.write("trace.json", trace_of(make_pipeline_schedule("1f1b", 2, 3, 1), {}, 4, 1, true));
  const auto measured = measure_pipeline(trace);
  EXPECT_EQ(measured.steps, 2);
  EXPECT_EQ(measured.incomplete_steps, 1);
}

TEST(PipelineMeasure, IsNotMovedByAStepThatSomebodyDisturbed) {
  const test::TemporaryFolder folder;
  const auto schedule = make_pipeline_schedule("1f1b", 4, 4, 1);
  const auto trace = folder.write("trace.json", trace_of(schedule, {}, 5, 1, false, 2));
  EXPECT_NEAR(measure_pipeline(trace).idle_in_all(), parallel::bubble_share(parallel::timeline(schedule, {})), 1e-9);
}

TEST(PipelineMeasure, SaysWhatATraceLacks) {
  const test::TemporaryFolder folder;
  const auto says = [&](const std::string& text, int stages = 0) {
    const auto path = folder.write("trace.json", text);
    return test::message_of([&] { (void)measure_pipeline(path, stages); }, Fault::Data);
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(says("nonsense"), "is no trace of ours"));
  EXPECT_TRUE(has(says(R"({"traceEvents":[{"ph":"X","ts":1}]})"), "is no trace of ours"));
  EXPECT_TRUE(has(says(R"({"traceEvents":[]})"), "has no spans of a pipeline"));
  const auto four = trace_of(make_pipeline_schedule("1f1b", 4, 8, 1), {}, 1);
  EXPECT_TRUE(has(says(four, 3), "4 ranks of"));
  EXPECT_TRUE(has(says(four, 2), "follows no schedule of 2 stages"));
  EXPECT_TRUE(has(says(four, 2), "parallel.order that does not begin with \"pipe\""));
}

}  // namespace
}  // namespace lockstep::apps
