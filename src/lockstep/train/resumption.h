// lockstep/train/resumption.h
//
// What a run goes on from: its newest checkpoint. Rank 0 reads it; the others get weights and
// states from there.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/train/checkpoint_saver.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

struct Resumed {
  nlohmann::json facts;          // null: from the beginning
  parallel::Parameters tensors;  // on rank 0

  bool any() const { return !facts.is_null(); }
  std::int64_t step() const { return any() ? facts.at("step").get<std::int64_t>() : 0; }
  data::Position position() const;
};

/// Gives `model` its weights and buffers, on rank 0. Fault::Usage if `data`, of data_facts(), is not that of the
/// checkpoint. A collective.
Resumed resume(const CheckpointSettings& settings, comm::Communicator& group, torch::nn::Module& model,
               const nlohmann::json& data);

/// `targets` become the tensors of the same name, with `prefix` in front.
void load_into(const parallel::Parameters& targets, const parallel::Parameters& tensors, const std::string& prefix);

}  // namespace lockstep::train
