// lockstep/parallel/pipeline_schedule.h
//
// Who does what in a pipeline, and in which order, as data. A stage is a rank of the pipe axis; it
// works through its list of actions one after another and waits before each for what that needs of
// other stages. All ranks know all lists before the first step, so that a schedule is checked,
// timed, drawn and compared without a model. A new one is one new file in pipeline_schedules/.
//
// A stage holds `chunks` pieces of the model. Piece `chunk` of stage s is virtual stage
// chunk * stages + s: a micro-batch passes through the virtual stages in ascending order, its
// gradient in descending order.
//
// A virtual stage adds up the gradients of its weights in ascending order of micro-batches in every
// schedule of ours: the choice among them changes no order of summation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/core/registry.h"

namespace lockstep::parallel {

/// Backward yields the gradients of input and weights at once; the last two yield them apart.
enum class PipelineWork : std::uint8_t { Forward, Backward, InputGradient, WeightGradient };

struct PipelineAction {
  PipelineWork work;
  int micro_batch;
  int chunk;
  bool operator==(const PipelineAction&) const = default;
};

struct PipelineShape {
  int stages;
  int micro_batches;
  int chunks;  // per stage
};

struct PipelineSchedule : PipelineShape {
  std::string name;
  std::vector<std::vector<PipelineAction>> of_stage;
};

/// Time of one micro-batch in one virtual stage, in any unit; Backward takes as long as both gradients.
struct PipelineCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
};

class PipelineScheduleMaker {
 public:
  virtual ~PipelineScheduleMaker() = default;
  /// Why there is none of this shape, whose numbers are positive; "" where there is one. By default more than one
  /// chunk is refused.
  virtual std::string refusal(const PipelineShape& shape) const;
  /// Of a stage, where nobody says how many.
  virtual int usual_chunks() const { return 1; }
  /// What `stage` does, in order; the shape is not refused.
  virtual std::vector<PipelineAction> actions(const PipelineShape& shape, int stage) const = 0;
  /// The bubble share in closed form.
  virtual double ideal_bubble(const PipelineShape& shape, const PipelineCosts& costs) const = 0;
};

using PipelineScheduleRegistry = Registry<std::unique_ptr<PipelineScheduleMaker>()>;

int usual_chunks(const std::string& name);
/// The one of this name, checked.
PipelineSchedule make_pipeline_schedule(const std::string& name, int stages, int micro_batches, int chunks);
/// What bubble_share(timeline(schedule, costs)) is by the formula of its maker, found by schedule.name.
double ideal_bubble_share(const PipelineSchedule& schedule, const PipelineCosts& costs = {});

/// An Error unless every virtual stage does each micro-batch just once, with its gradients at once or apart, and no
/// stages wait for each other in a circle, which the Error shows.
void check(const PipelineSchedule& schedule);

struct TimedAction {
  PipelineAction action;
  double begin;
  double end;
};
using PipelineTimeline = std::vector<std::vector<TimedAction>>;  // by stage

/// Every action as early as the order and what it waits for allow, from time 0 on; messages take no time. Checks the
/// schedule.
PipelineTimeline timeline(const PipelineSchedule& schedule, const PipelineCosts& costs = {});
/// From time 0 to the end of the last action.
double makespan(const PipelineTimeline& timeline);
/// The share of the makespan in which stages are idle, on average.
double bubble_share(const PipelineTimeline& timeline);

/// The most activations that `stage` holds at once, one for each micro-batch in each chunk. One is held from its
/// Forward on until the gradients of the weights are known: a split backward frees only a part of it before.
int peak_in_flight(const PipelineSchedule& schedule, int stage);

/// Whether some gradients of weights are computed apart from those of inputs.
bool splits_backward(const PipelineSchedule& schedule);

struct PipelineMessage {
  bool gradient;  // else the output of a Forward
  int micro_batch;
  int chunk;  // of the receiver
  bool operator==(const PipelineMessage&) const = default;
};

/// What stage `from` sends to stage `to`, in the order in which it comes into being; the receiver may need it in
/// another one. What a stage hands to itself, being the only one, is no message.
std::vector<PipelineMessage> messages(const PipelineSchedule& schedule, int from, int to);

/// A table for a terminal: a line per stage, a column per unit of time at costs of 1. "F2" is the Forward of
/// micro-batch 2, "F2.1" that in chunk 1 where there are several; B, I and W are the other kinds of work.
std::string text(const PipelineSchedule& schedule);

}  // namespace lockstep::parallel
