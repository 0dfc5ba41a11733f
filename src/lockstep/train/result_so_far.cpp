#include "lockstep/train/result_so_far.h"

#include <limits>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/train/best_steps.h"

namespace lockstep::train {
namespace {

constexpr const char kSoFar[] = "so_far";

/// JSON has no numbers that are not finite: they are written as null.
double number_of(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

nlohmann::json json_of(const Evaluation& evaluation) {
  return {{"of", evaluation.of},
          {"step", evaluation.step},
          {"epoch", evaluation.epoch},
          {"samples", evaluation.samples},
          {"figures", evaluation.figures}};  // pairs: their order is kept
}

Evaluation evaluation_of(const nlohmann::json& json) {
  Evaluation result{json.at("of").get<std::string>(),
                    json.at("step").get<std::int64_t>(),
                    json.at("epoch").get<std::int64_t>(),
                    json.at("samples").get<std::int64_t>(),
                    {}};
  for (const auto& figure : json.at("figures")) {
    result.figures.emplace_back(figure.at(0).get<std::string>(), number_of(figure.at(1)));
  }
  return result;
}

}  // namespace

void note_result(nlohmann::json& facts, const RunResult& so_far) {
  nlohmann::json evaluations = nlohmann::json::array();
  for (const auto& evaluation : so_far.evaluations) evaluations.push_back(json_of(evaluation));
  facts[kSoFar] = {{"skipped", so_far.skipped},           {"loss", so_far.loss},
                   {"imbalance", so_far.imbalance},       {"seconds", so_far.seconds},
                   {"waited_share", so_far.waited_share}, {"evaluations", evaluations}};
}

RunResult noted_result(const nlohmann::json& facts) {
  RunResult result;
  if (!facts.contains(kSoFar)) return result;
  try {
    const auto& noted = facts.at(kSoFar);
    result.skipped = noted.at("skipped").get<std::int64_t>();
    result.loss = number_of(noted.at("loss"));
    result.imbalance = number_of(noted.at("imbalance"));
    result.seconds = number_of(noted.at("seconds"));
    result.waited_share = number_of(noted.at("waited_share"));
    for (const auto& evaluation : noted.at("evaluations")) result.evaluations.push_back(evaluation_of(evaluation));
  } catch (const nlohmann::json::exception& error) {
    fail(Fault::Data, fmt::format("the checkpoint does not tell of its run as it should: {}", error.what()));
  }
  return result;
}

std::optional<std::int64_t> best_step(const CheckpointFolder& folder, const std::string& figure,
                                      const std::vector<Evaluation>& later) {
  BestSteps best(figure);
  const auto steps = folder.steps();
  for (const std::int64_t step : steps) {
    try {
      best.recall(noted_result(folder.facts(step)).evaluations);
    } catch (const Error& error) {
      log().warn("passing over the checkpoint of step {}: {}", step, error.what());
    }
  }
  best.recall(later);
  const auto found = best.best(1, steps);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace lockstep::train
