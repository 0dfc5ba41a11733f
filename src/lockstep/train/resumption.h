// lockstep/train/resumption.h
//
// What a run goes on from: its newest checkpoint. Of ranks that have the same of a model the first
// reads that; the others get weights and states from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/loader.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/train/checkpoint_saver.h"
#include "lockstep/train/layout.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

struct Resumed {
  nlohmann::json facts;  // null: from the beginning
  SavedTensors tensors;  // on the first rank of the replicas, or on all
  TensorParts parts;     // that this rank has of the model

  bool any() const { return !facts.is_null(); }
  std::int64_t step() const { return any() ? facts.at("step").get<std::int64_t>() : 0; }
  data::Position position() const;
};

/// Gives `model` its weights and buffers, on the first rank of `replicas`, whose ranks have the same of it; where they
/// share weights out, only what is not trained, and all may read the rest. Fault::Usage if `data`, of data_facts(), is
/// not that of the checkpoint, or the folder of a run that begins holds one already. A collective of `group`.
Resumed resume(const CheckpointSettings& settings, comm::Communicator& group, const comm::Communicator& replicas,
               torch::nn::Module& model, const nlohmann::json& data, bool shared_out);

/// How the newest checkpoint in `folder` whose manifest can be read was laid out; none: there is no such, or it does
/// not say.
std::optional<Layout> layout_before(const std::string& folder);
/// As rank 0 sees it. A collective.
std::optional<Layout> layout_before(const std::string& folder, comm::Communicator& group);

/// `targets` become the tensors of the same name, with `prefix` in front.
void load_into(const parallel::Parameters& targets, const Resumed& resumed, const std::string& prefix);

}  // namespace lockstep::train
