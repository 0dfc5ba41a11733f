#include "lockstep/parallel/pipeline_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"

namespace lockstep::parallel {
namespace {

[[noreturn]] void fail_schedule(const PipelineSchedule& schedule, const std::string& why) {
  fail(Fault::Usage, fmt::format("pipeline schedule '{}' (stages {}, micro-batches {}, chunks {}): {}", schedule.name,
                                 schedule.stages, schedule.micro_batches, schedule.chunks, why));
}

void require_positive(const PipelineSchedule& schedule) {
  if (std::min({schedule.stages, schedule.micro_batches, schedule.chunks}) < 1) {
    fail_schedule(schedule, "each number must be at least 1");
  }
  constexpr double kMost = 1 << 22;  // each is looked at several times, and a list may be printed
  const double pieces = 1.0 * schedule.stages * schedule.micro_batches * schedule.chunks;
  if (pieces > kMost)
    fail_schedule(schedule, fmt::format("that is {:.0f} forwards, and {:.0f} are the most", pieces, kMost));
}

void require_stage(const PipelineSchedule& schedule, int stage) {
  const std::size_t lists = schedule.of_stage.size();
  if (stage < 0 || stage >= schedule.stages || static_cast<std::size_t>(stage) >= lists) {
    fail_schedule(schedule, fmt::format("there is no stage {} among its {} lists", stage, lists));
  }
}

void require_costs(const PipelineCosts& costs) {
  const std::array all{costs.forward, costs.input_gradient, costs.weight_gradient};
  const bool times = std::all_of(all.begin(), all.end(), [](double cost) { return std::isfinite(cost) && cost >= 0; });
  if (!times || std::all_of(all.begin(), all.end(), [](double cost) { return cost == 0; })) {
    fail(Fault::Usage,
         fmt::format("costs of forward {}, input gradient {} and weight gradient {}: each must be a time, "
                     "and one above 0",
                     costs.forward, costs.input_gradient, costs.weight_gradient));
  }
}

double cost_of(PipelineWork work, const PipelineCosts& costs) {
  switch (work) {
    case PipelineWork::Forward: return costs.forward;
    case PipelineWork::Backward: return costs.input_gradient + costs.weight_gradient;
    case PipelineWork::InputGradient: return costs.input_gradient;
    case PipelineWork::WeightGradient: return costs.weight_gradient;
  }
  fail(Fault::Internal, fmt::format("pipeline work {}", static_cast<int>(work)));
}

/// "F2", "F2.1"
std::string label(const PipelineShape& shape, const PipelineAction& action) {
  constexpr char kLetters[] = {'F', 'B', 'I', 'W'};
  const std::string name = fmt::format("{}{}", kLetters[static_cast<std::size_t>(action.work)], action.micro_batch);
  return shape.chunks > 1 ? fmt::format("{}.{}", name, action.chunk) : name;
}

bool makes_gradient(PipelineWork work) { return work == PipelineWork::Backward || work == PipelineWork::InputGradient; }

/// What one action makes and another one waits for.
struct Product {
  bool gradient;
  int virtual_stage;
  int micro_batch;
};

int virtual_stage_of(const PipelineShape& shape, const PipelineAction& action, int stage) {
  return action.chunk * shape.stages + stage;
}

/// Of each virtual stage and micro-batch.
template <class T>
class Table {
 public:
  explicit Table(const PipelineShape& shape)
      : width_(static_cast<std::size_t>(shape.micro_batches)),
        values_(static_cast<std::size_t>(shape.stages) * static_cast<std::size_t>(shape.chunks) * width_) {}
  T& at(int virtual_stage, int micro_batch) {
    return values_[static_cast<std::size_t>(virtual_stage) * width_ + static_cast<std::size_t>(micro_batch)];
  }

 private:
  std::size_t width_;
  std::vector<T> values_;
};

void require_each_once(const PipelineSchedule& schedule) {
  if (schedule.of_stage.size() != static_cast<std::size_t>(schedule.stages)) {
    fail_schedule(schedule, fmt::format("it has {} lists", schedule.of_stage.size()));
  }
  Table<std::array<int, 4>> counts(schedule);  // by kind of work
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const auto& action : schedule.of_stage[static_cast<std::size_t>(stage)]) {
      const auto& [work, micro_batch, chunk] = action;
      if (micro_batch < 0 || micro_batch >= schedule.micro_batches || chunk < 0 || chunk >= schedule.chunks) {
        fail_schedule(schedule, fmt::format("stage {} has {}, which is of micro-batch {} and chunk {}", stage,
                                            label(schedule, action), micro_batch, chunk));
      }
      ++counts.at(virtual_stage_of(schedule, action, stage), micro_batch)[static_cast<std::size_t>(work)];
    }
  }
  for (int virtual_stage = 0; virtual_stage < schedule.stages * schedule.chunks; ++virtual_stage) {
    for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
      const auto& count = counts.at(virtual_stage, micro_batch);
      if (count == std::array{1, 1, 0, 0} || count == std::array{1, 0, 1, 1}) continue;
      const auto name = [&](PipelineWork work) {
        return label(schedule, {work, micro_batch, virtual_stage / schedule.stages});
      };
      const auto forward = name(PipelineWork::Forward), backward = name(PipelineWork::Backward),
                 input = name(PipelineWork::InputGradient), weight = name(PipelineWork::WeightGradient);
      fail_schedule(schedule, fmt::format("the list of stage {} has {} {}, {} {}, {} {} and {} {}, instead of 1 {} and "
                                          "either 1 {} or 1 {} and 1 {}",
                                          virtual_stage % schedule.stages, count[0], forward, count[1], backward,
                                          count[2], input, count[3], weight, forward, backward, input, weight));
    }
  }
}

/// Stages that work through their lists, each action as soon as it can be.
class Execution {
 public:
  Execution(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule), costs_(costs), forward_ends_(schedule), gradient_ends_(schedule) {
    done_.resize(schedule.of_stage.size());
  }

  PipelineTimeline run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (int stage = 0; stage < schedule_.stages; ++stage) {
        while (!finished(stage) && !waits_for(stage)) {
          perform_next(stage);
          moves = true;
        }
      }
    }
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      if (!finished(stage)) fail_circle(stage);
    }
    return std::move(done_);
  }

 private:
  const std::vector<PipelineAction>& list(int stage) const {
    return schedule_.of_stage[static_cast<std::size_t>(stage)];
  }
  std::vector<TimedAction>& done(int stage) { return done_[static_cast<std::size_t>(stage)]; }
  bool finished(int stage) { return done(stage).size() == list(stage).size(); }
  const PipelineAction& next(int stage) { return list(stage)[done(stage).size()]; }
  std::optional<double>& end_of(const Product& product) {
    return (product.gradient ? gradient_ends_ : forward_ends_).at(product.virtual_stage, product.micro_batch);
  }

  std::vector<Product> needs_of_next(int stage) {
    const auto& action = next(stage);
    const int here = virtual_stage_of(schedule_, action, stage);
    std::vector<Product> needs;
    const auto need = [&](bool gradient, int virtual_stage) {
      needs.push_back({gradient, virtual_stage, action.micro_batch});
    };
    if (action.work == PipelineWork::Forward) {
      if (here > 0) need(false, here - 1);
    } else if (action.work == PipelineWork::WeightGradient) {
      need(true, here);
    } else {
      need(false, here);
      if (here + 1 < schedule_.stages * schedule_.chunks) need(true, here + 1);
    }
    return needs;
  }

  std::optional<Product> waits_for(int stage) {
    for (const auto& need : needs_of_next(stage)) {
      if (!end_of(need)) return need;
    }
    return std::nullopt;
  }

  void perform_next(int stage) {
    const auto& action = next(stage);
    double begin = done(stage).empty() ? 0 : done(stage).back().end;
    for (const auto& need : needs_of_next(stage)) begin = std::max(begin, *end_of(need));
    const double end = begin + cost_of(action.work, costs_);
    if (action.work != PipelineWork::WeightGradient) {
      end_of({makes_gradient(action.work), virtual_stage_of(schedule_, action, stage), action.micro_batch}) = end;
    }
    done(stage).push_back({action, begin, end});
  }

  int stage_of(const Product& product) const { return product.virtual_stage % schedule_.stages; }

  const PipelineAction& maker_of(const Product& product) const {
    const auto& actions = list(stage_of(product));
    return *std::find_if(actions.begin(), actions.end(), [&](const PipelineAction& action) {
      const bool kind = product.gradient ? makes_gradient(action.work) : action.work == PipelineWork::Forward;
      return kind && action.micro_batch == product.micro_batch &&
             action.chunk == product.virtual_stage / schedule_.stages;
    });
  }

  /// Each action occurs, so what a stuck stage waits for is in the list of one that is stuck too.
  [[noreturn]] void fail_circle(int stuck) {
    std::vector<bool> seen(schedule_.of_stage.size());
    int stage = stuck;
    for (; !seen[static_cast<std::size_t>(stage)]; stage = stage_of(*waits_for(stage))) {
      seen[static_cast<std::size_t>(stage)] = true;
    }
    std::string circle;
    const int first = stage;
    do {
      const Product product = *waits_for(stage);
      circle += fmt::format("{}stage {} waits before {}, action {} of {}, for {} of stage {}",
                            circle.empty() ? "" : "; ", stage, label(schedule_, next(stage)), done(stage).size() + 1,
                            list(stage).size(), label(schedule_, maker_of(product)), stage_of(product));
      stage = stage_of(product);
    } while (stage != first);
    fail_schedule(schedule_, "it cannot end: " + circle);
  }

  const PipelineSchedule& schedule_;
  const PipelineCosts& costs_;
  Table<std::optional<double>> forward_ends_, gradient_ends_;
  PipelineTimeline done_;
};

}  // namespace

std::string PipelineScheduleMaker::refusal(const PipelineShape& shape) const {
  return shape.chunks == 1 ? "" : "it is for 1 chunk per stage";
}

int usual_chunks(const std::string& name) {
  return PipelineScheduleRegistry::instance().at("pipeline schedule", name)()->usual_chunks();
}

PipelineSchedule make_pipeline_schedule(const std::string& name, int stages, int micro_batches, int chunks) {
  const auto maker = PipelineScheduleRegistry::instance().at("pipeline schedule", name)();
  PipelineSchedule schedule{{stages, micro_batches, chunks}, name, {}};
  require_positive(schedule);
  if (const auto why = maker->refusal(schedule); !why.empty()) fail_schedule(schedule, why);
  for (int stage = 0; stage < stages; ++stage) schedule.of_stage.push_back(maker->actions(schedule, stage));
  check(schedule);
  return schedule;
}

double ideal_bubble_share(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  require_costs(costs);
  return PipelineScheduleRegistry::instance().at("pipeline schedule", schedule.name)()->ideal_bubble(schedule, costs);
}

void check(const PipelineSchedule& schedule) { (void)timeline(schedule); }

PipelineTimeline timeline(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  require_costs(costs);
  require_positive(schedule);
  require_each_once(schedule);
  return Execution(schedule, costs).run();
}

double makespan(const PipelineTimeline& timeline) {
  double end = 0;
  for (const auto& stage : timeline) {
    if (!stage.empty()) end = std::max(end, stage.back().end);
  }
  return end;
}

double bubble_share(const PipelineTimeline& timeline) {
  const double all = makespan(timeline) * static_cast<double>(timeline.size());
  double busy = 0;
  for (const auto& stage : timeline) {
    for (const auto& [action, begin, end] : stage) busy += end - begin;
  }
  return all > 0 ? 1 - busy / all : 0;
}

int peak_in_flight(const PipelineSchedule& schedule, int stage) {
  require_stage(schedule, stage);
  int held = 0, most = 0;
  for (const auto& action : schedule.of_stage[static_cast<std::size_t>(stage)]) {
    if (action.work == PipelineWork::Forward) most = std::max(most, ++held);
    if (action.work == PipelineWork::Backward || action.work == PipelineWork::WeightGradient) --held;
  }
  return most;
}

bool splits_backward(const PipelineSchedule& schedule) {
  return std::any_of(schedule.of_stage.begin(), schedule.of_stage.end(), [](const auto& actions) {
    return std::any_of(actions.begin(), actions.end(),
                       [](const auto& action) { return action.work == PipelineWork::WeightGradient; });
  });
}

std::vector<PipelineMessage> messages(const PipelineSchedule& schedule, int from, int to) {
  require_stage(schedule, from);
  require_stage(schedule, to);
  std::vector<PipelineMessage> result;
  if (from == to) return result;
  for (const auto& action : schedule.of_stage[static_cast<std::size_t>(from)]) {
    if (action.work == PipelineWork::WeightGradient) continue;
    const bool gradient = makes_gradient(action.work);
    const int receiver = virtual_stage_of(schedule, action, from) + (gradient ? -1 : 1);
    const bool exists = receiver >= 0 && receiver < schedule.stages * schedule.chunks;
    if (exists && receiver % schedule.stages == to) {
      result.push_back({gradient, action.micro_batch, receiver / schedule.stages});
    }
  }
  return result;
}

std::string text(const PipelineSchedule& schedule) {
  const auto times = timeline(schedule);
  std::size_t width = 0;
  for (const auto& stage : schedule.of_stage) {
    for (const auto& action : stage) width = std::max(width, label(schedule, action).size());
  }
  // Costs are 1, so that all times are whole numbers.
  const auto slots = static_cast<std::size_t>(makespan(times));
  const std::size_t last_stage_digits = std::to_string(schedule.stages - 1).size();
  std::string table;
  for (std::size_t stage = 0; stage < times.size(); ++stage) {
    std::string cells;
    for (std::size_t slot = 0; slot < slots; ++slot) cells += fmt::format(" {:<{}}", ".", width);
    for (const auto& [action, begin, end] : times[stage]) {
      const auto name = label(schedule, action);
      const std::size_t taken = static_cast<std::size_t>(end - begin) * (width + 1) - 1;
      // An action of several slots is drawn through them.
      const bool wide = end - begin > 1;
      cells.replace(static_cast<std::size_t>(begin) * (width + 1) + 1, taken,
                    wide ? fmt::format("{:-<{}}", name, taken) : fmt::format("{:<{}}", name, taken));
    }
    cells.erase(cells.find_last_not_of(' ') + 1);
    table += fmt::format("stage {:>{}} |{}\n", stage, last_stage_digits, cells);
  }
  return table;
}

}  // namespace lockstep::parallel
