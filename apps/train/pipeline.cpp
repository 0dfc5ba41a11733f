// `lockstep pipeline`: what the stages of a pipeline do, and when, under a schedule, or did in a run.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_text.h"
#include "lockstep/core/file.h"
#include "lockstep/parallel/pipeline_schedule.h"
#include "train/pipeline_drawing.h"
#include "train/pipeline_measure.h"
#include "whole_number.h"

namespace lockstep::apps {
namespace {

constexpr const char kExamples[] = R"(Examples:
  lockstep pipeline 1f1b --stages 4 --micro-batches 8
  lockstep pipeline interleaved --stages 4 --micro-batches 8 --chunks 2 --svg interleaved.svg
  LOCKSTEP_TRACE=trace.json lockstep train recipes/gpt.toml -n 4 parallel.pipe=4 accumulate=8 steps=10
  lockstep pipeline --measure trace.json                    how long its stages had nothing to do
F is a forward, B a backward; I and W are its two halves, the gradients of inputs and of weights.
A recipe takes a schedule by parallel = { pipe = 4, schedule = "1f1b" } and accumulate = 8.)";

struct Options {
  std::string name = "1f1b";
  int stages = 4, micro_batches = 8, chunks = 0;  // 0: as few as the schedule takes
  parallel::PipelineCosts costs;
  std::string svg;
  std::string trace;  // to be measured, instead of all that
  int measured_stages = 0;
  bool json = false;
};

void measure(const Options& options) {
  const auto measured = measure_pipeline(options.trace, options.measured_stages);
  const auto& schedule = measured.schedule;
  const double formula = parallel::ideal_bubble_share(schedule, measured.costs);
  if (options.json) {
    fmt::print("{}", json_text({{"schedule", schedule.name},
                                {"stages", schedule.stages},
                                {"micro_batches", schedule.micro_batches},
                                {"chunks", schedule.chunks},
                                {"steps", measured.steps},
                                {"incomplete_steps", measured.incomplete_steps},
                                {"idle", measured.idle_in_all()},
                                {"idle_by_stage", measured.idle},
                                {"formula", formula},
                                {"forward_s", measured.costs.forward},
                                {"input_gradient_s", measured.costs.input_gradient},
                                {"weight_gradient_s", measured.costs.weight_gradient}}));
    return;
  }
  fmt::print("{}: {} stages, {} micro-batches{}; the median of {} steps\n", schedule.name, schedule.stages,
             schedule.micro_batches, schedule.chunks > 1 ? fmt::format(", {} chunks", schedule.chunks) : "",
             measured.steps);
  for (int stage = 0; stage < schedule.stages; ++stage)
    fmt::print("stage {} | idle {:.1f} %\n", stage, 100 * measured.idle[static_cast<std::size_t>(stage)]);
  fmt::print("idle {:.1f} % of the time in all; by the schedule's formula {:.1f} %\n", 100 * measured.idle_in_all(),
             100 * formula);
  if (measured.incomplete_steps > 0)
    fmt::print("{} steps are left out: a part of their work is missing\n", measured.incomplete_steps);
}

void run(const Options& options) {
  if (!options.trace.empty()) return measure(options);
  const int chunks = options.chunks > 0 ? options.chunks : parallel::usual_chunks(options.name);
  const auto schedule = parallel::make_pipeline_schedule(options.name, options.stages, options.micro_batches, chunks);
  const auto timeline = parallel::timeline(schedule, options.costs);
  const double bubble = parallel::bubble_share(timeline);
  std::vector<int> peaks;
  for (int stage = 0; stage < schedule.stages; ++stage) peaks.push_back(parallel::peak_in_flight(schedule, stage));
  if (!options.svg.empty()) {
    const std::string title = fmt::format("{}: {} stages, {} micro-batches{}", schedule.name, schedule.stages,
                                          schedule.micro_batches, chunks > 1 ? fmt::format(", {} chunks", chunks) : "");
    write_whole(options.svg, pipeline_svg(timeline, title));
  }
  if (options.json) {
    fmt::print("{}", json_text({{"schedule", schedule.name},
                                {"stages", schedule.stages},
                                {"micro_batches", schedule.micro_batches},
                                {"chunks", chunks},
                                {"bubble", bubble},
                                {"formula", parallel::ideal_bubble_share(schedule, options.costs)},
                                {"peak_in_flight", peaks}}));
    return;
  }
  fmt::print("{}", parallel::text(schedule));
  fmt::print("idle {:.1f} % of the time; activations of at most", 100 * bubble);
  for (const int peak : peaks) fmt::print(" {}", peak);
  fmt::print(" micro-batches at once, by stage\n");
}

}  // namespace

void add_pipeline(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("pipeline", "What the stages of a pipeline do under a schedule, or did in a run");
  command->footer(kExamples);
  auto* name =
      command->add_option("schedule", options->name, "gpipe, 1f1b, interleaved or zero_bubble")->capture_default_str();
  auto* stages = command->add_option("--stages", options->stages, "Ranks of the pipe axis")
                     ->check(whole_from(1))
                     ->capture_default_str();
  command->add_option("--micro-batches", options->micro_batches, "Pieces of a batch")
      ->check(whole_from(1))
      ->capture_default_str();
  command->add_option("--chunks", options->chunks, "Pieces of the model on each stage; by default 1, interleaved 2")
      ->check(whole_from(1));
  command->add_option("--forward", options->costs.forward, "Time of a forward")->capture_default_str();
  command->add_option("--input-gradient", options->costs.input_gradient, "Of the first half of a backward")
      ->capture_default_str();
  command->add_option("--weight-gradient", options->costs.weight_gradient, "Of the second")->capture_default_str();
  command->add_option("--svg", options->svg, "File for a drawing");
  command->add_option("--measure", options->trace, "Trace of a run: how long its stages were idle")->excludes(name);
  command->add_flag("--json", options->json, "For scripts");
  command->callback([options, stages] {
    if (stages->count() > 0) options->measured_stages = options->stages;  // else those that the trace has
    run(*options);
  });
}

}  // namespace lockstep::apps
