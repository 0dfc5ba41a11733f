// lockstep/train/data_facts.h
//
// By what a checkpoint knows the data of its run again. Its position in an epoch means nothing
// in another sequence of samples. Where the data lies is not looked at: it may have moved.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "lockstep/train/trainer.h"

namespace lockstep::train {

nlohmann::json data_facts(const TrainingData& data, std::uint64_t seed);
/// Fault::Usage naming what differs. A checkpoint that knows nothing, null, is content with all.
void check_same_data(const nlohmann::json& of_checkpoint, const nlohmann::json& now);

}  // namespace lockstep::train
