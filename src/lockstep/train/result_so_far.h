// lockstep/train/result_so_far.h
//
// What a run has to tell of itself at a checkpoint, kept there so that a resumed run tells
// of all its steps and not only of those since.
#pragma once

#include <nlohmann/json.hpp>

#include "lockstep/train/checkpoint.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Puts it among the facts of a checkpoint.
void note_result(nlohmann::json& facts, const RunResult& so_far);
/// What was noted there; that of a run that begins if nothing was. Fault::Data if it is something else.
RunResult noted_result(const nlohmann::json& facts);

/// The checkpoint whose validation was the best by this figure; none if no checkpoint had one. A
/// validation may have come after the checkpoint of its step: `later` ones are no checkpoint's.
std::optional<std::int64_t> best_step(const CheckpointFolder& folder, const std::string& figure,
                                      const std::vector<Evaluation>& later = {});

}  // namespace lockstep::train
