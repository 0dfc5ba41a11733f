#include "train/pipeline_measure.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lockstep/core/error.h"
#include "lockstep/core/file.h"

namespace lockstep::apps {
namespace {

using parallel::PipelineAction;
using parallel::PipelineSchedule;
using parallel::PipelineWork;

struct Stretch {
  double begin, end;  // in seconds
  double length() const { return end - begin; }
};
struct Work : Stretch {
  PipelineWork kind;
  int micro_batch;
};
using StepWork = std::vector<Work>;  // of one rank, in its order

/// What a rank did.
struct RankSpans {
  std::vector<Stretch> steps;
  std::vector<Work> work;
  bool splits = false;  // its backwards
};

// Names that Pipeline::train() and the Trainer give to their spans.
const std::map<std::string, PipelineWork> kWork = {{"forward of a stage", PipelineWork::Forward},
                                                   {"backward of a stage", PipelineWork::Backward},
                                                   {"weight gradients of a stage", PipelineWork::WeightGradient}};
constexpr const char kStep[] = "step";

std::map<int, RankSpans> spans_of(const nlohmann::json& trace) {
  std::map<int, RankSpans> ranks;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::string name = event.at("name");
    const auto work = kWork.find(name);
    if (name != kStep && work == kWork.end()) continue;
    constexpr double kMicro = 1e-6;
    const double begin = kMicro * event.at("ts").get<double>();
    const Stretch stretch{begin, begin + kMicro * event.at("dur").get<double>()};
    RankSpans& spans = ranks[event.at("pid").get<int>()];
    if (name == kStep) {
      spans.steps.push_back(stretch);
      continue;
    }
    // The argument of these spans counts micro-batches from 1 on: one of 0 would not be in the trace.
    spans.work.push_back({stretch, work->second, event.at("args").at("bytes").get<int>() - 1});
    spans.splits |= work->second == PipelineWork::WeightGradient;
  }
  std::erase_if(ranks, [](const auto& rank) { return rank.second.work.empty(); });
  for (auto& [rank, spans] : ranks) {
    for (auto& work : spans.work) {
      if (spans.splits && work.kind == PipelineWork::Backward) work.kind = PipelineWork::InputGradient;
    }
  }
  return ranks;
}

std::vector<StepWork> steps_of(const RankSpans& spans) {
  std::vector<StepWork> steps(spans.steps.size());
  std::size_t step = 0;
  for (const auto& work : spans.work) {  // all in the order in which they began
    while (step < steps.size() && spans.steps[step].end < work.end) ++step;
    if (step < steps.size() && spans.steps[step].begin <= work.begin) steps[step].push_back(work);
  }
  return steps;
}

bool follows(const StepWork& done, const std::vector<PipelineAction>& list) {
  const auto same = [](const Work& work, const PipelineAction& one) {
    return work.kind == one.work && work.micro_batch == one.micro_batch;
  };
  return std::equal(done.begin(), done.end(), list.begin(), list.end(), same);
}

/// One step on all ranks.
using Step = std::vector<const StepWork*>;

int stage_of(std::size_t rank, std::size_t ranks, int stages) {
  return static_cast<int>(rank * static_cast<std::size_t>(stages) / ranks);
}

bool follows(const Step& step, const PipelineSchedule& schedule) {
  for (std::size_t rank = 0; rank < step.size(); ++rank) {
    const int stage = stage_of(rank, step.size(), schedule.stages);
    if (!follows(*step[rank], schedule.of_stage[static_cast<std::size_t>(stage)])) return false;
  }
  return true;
}

/// The one that a step follows.
std::optional<PipelineSchedule> schedule_of(const Step& step, int stages) {
  int micro_batches = 0, forwards = 0;
  for (const auto& work : *step[0]) {
    if (work.kind != PipelineWork::Forward) continue;
    ++forwards;
    micro_batches = std::max(micro_batches, work.micro_batch + 1);
  }
  if (micro_batches == 0 || forwards % micro_batches != 0) return std::nullopt;
  const int chunks = forwards / micro_batches;
  for (const auto& [name, entry] : parallel::PipelineScheduleRegistry::instance().entries()) {
    if (!entry.make()->refusal({stages, micro_batches, chunks}).empty()) continue;
    auto schedule = parallel::make_pipeline_schedule(name, stages, micro_batches, chunks);
    if (follows(step, schedule)) return schedule;
  }
  return std::nullopt;
}

/// Times of a step that add up over ranks.
class StepTimes {
 public:
  StepTimes(const Step& step, int stages) : busy_(static_cast<std::size_t>(stages)) {
    Stretch window{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const StepWork* work : step) {
      window.begin = std::min(window.begin, work->front().begin);
      window.end = std::max(window.end, work->back().end);
    }
    of_stage_ = window.length() * static_cast<double>(step.size()) / stages;
    for (std::size_t rank = 0; rank < step.size(); ++rank) {
      for (const auto& work : *step[rank]) {
        busy_[static_cast<std::size_t>(stage_of(rank, step.size(), stages))] += work.length();
        auto& [seconds, count] = of_kind_[work.kind];
        seconds += work.length();
        ++count;
      }
    }
  }

  std::vector<double> idle() const {
    std::vector<double> shares;
    for (const double busy : busy_) shares.push_back(1 - busy / of_stage_);
    return shares;
  }
  double busy_share() const {
    return std::accumulate(busy_.begin(), busy_.end(), 0.0) / (of_stage_ * static_cast<double>(busy_.size()));
  }
  parallel::PipelineCosts costs() const {
    const double half = mean(PipelineWork::Backward) / 2;
    return {mean(PipelineWork::Forward), half > 0 ? half : mean(PipelineWork::InputGradient),
            half > 0 ? half : mean(PipelineWork::WeightGradient)};
  }

 private:
  double mean(PipelineWork kind) const {
    const auto found = of_kind_.find(kind);
    return found == of_kind_.end() ? 0 : found->second.first / found->second.second;
  }

  std::vector<double> busy_;  // by stage
  double of_stage_ = 0;       // from begin to end, of all its ranks together
  std::map<PipelineWork, std::pair<double, int>> of_kind_;
};

}  // namespace

double MeasuredPipeline::idle_in_all() const {
  return std::accumulate(idle.begin(), idle.end(), 0.0) / static_cast<double>(idle.size());
}

MeasuredPipeline measure_pipeline(const std::string& path, int stages) {
  std::vector<std::vector<StepWork>> of_rank;
  try {
    for (const auto& [rank, spans] : spans_of(nlohmann::json::parse(read_whole(path))))
      of_rank.push_back(steps_of(spans));
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("{} is no trace of ours: {}", path, error.what()));
  }
  if (of_rank.empty()) {
    fail(Fault::Data, fmt::format("{} has no spans of a pipeline: record one by LOCKSTEP_TRACE=FILE lockstep train "
                                  "RECIPE -n 4 parallel.pipe=4",
                                  path));
  }
  const std::size_t ranks = of_rank.size();
  if (stages == 0) stages = static_cast<int>(ranks);
  if (ranks % static_cast<std::size_t>(stages) != 0)
    fail(Fault::Data, fmt::format("{} ranks of {} are no {} stages: set --stages", ranks, path, stages));

  // Events of early steps may have been overwritten, on some ranks more than on others: the last ones are the same.
  std::size_t common = of_rank[0].size();
  for (const auto& steps : of_rank) common = std::min(common, steps.size());
  std::vector<Step> steps(common);
  for (std::size_t step = 0; step < common; ++step) {
    for (const auto& own : of_rank) steps[step].push_back(&own[own.size() - common + step]);
  }

  MeasuredPipeline measured;
  std::vector<Step> complete;
  for (const auto& step : steps) {
    if (measured.schedule.name.empty()) {
      if (auto found = schedule_of(step, stages)) measured.schedule = std::move(*found);
    }
    if (!measured.schedule.name.empty() && follows(step, measured.schedule)) complete.push_back(step);
  }
  if (complete.empty()) {
    fail(Fault::Data, fmt::format("the work of {} steps in {} follows no schedule of {} stages: of ranks that are "
                                  "copies of a pipeline or split its layers, say --stages; of a run with a "
                                  "parallel.order that does not begin with \"pipe\" stages cannot be told apart, "
                                  "record one without it",
                                  common, path, stages));
  }
  measured.incomplete_steps = static_cast<int>(common - complete.size());
  if (complete.size() > 1) complete.erase(complete.begin());
  measured.steps = static_cast<int>(complete.size());
  std::vector<StepTimes> times;
  for (const auto& step : complete) times.emplace_back(step, stages);
  const auto median = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), median, times.end(),
                   [](const auto& one, const auto& other) { return one.busy_share() > other.busy_share(); });
  measured.idle = median->idle();
  measured.costs = median->costs();
  return measured;
}

}  // namespace lockstep::apps
