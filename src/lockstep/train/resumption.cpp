#include "lockstep/train/resumption.h"

#include <algorithm>
#include <string>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/data_facts.h"

namespace lockstep::train {
namespace {

/// A run keeps the last of its own steps, and those of another would be in its way.
void check_unused(const std::string& folder, comm::Communicator& group) {
  const auto steps = CheckpointFolder(folder).steps_by(group);
  if (steps.empty()) return;
  fail(Fault::Usage, fmt::format("{} holds checkpoints up to step {}: set checkpoints.resume = true to go on, or name "
                                 "another folder",
                                 folder, steps.back()));
}

/// The facts of the newest that is whole; null: there is none. Each rank looks through parts of its own, as they were
/// written. A collective.
nlohmann::json newest_facts(const CheckpointFolder& folder, comm::Communicator& group) {
  const auto steps = folder.steps_by(group);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto faults = group.gather_bytes(folder.fault_of(*step, group.rank(), group.size()));
    const auto fault = std::find_if(faults.begin(), faults.end(), [](const auto& one) { return !one.empty(); });
    if (fault == faults.end()) {
      return nlohmann::json::parse(group.broadcast_bytes(group.rank() == 0 ? folder.facts(*step).dump() : "", 0));
    }
    if (group.rank() == 0) CheckpointFolder::warn_of_spoilt(*step, *fault);
  }
  return {};
}

}  // namespace

data::Position Resumed::position() const {
  if (!any()) return {};
  return {facts.at("epoch").get<std::int64_t>(), facts.at("sample").get<std::int64_t>()};
}

Resumed resume(const CheckpointSettings& settings, comm::Communicator& group, const comm::Communicator& replicas,
               torch::nn::Module& model, const nlohmann::json& data, bool shared_out) {
  if (settings.folder.empty()) return {};
  if (!settings.resume) {
    check_unused(settings.folder, group);
    return {};
  }
  const CheckpointFolder folder(settings.folder);
  Resumed result;
  result.facts = newest_facts(folder, group);
  if (!result.any() && group.rank() == 0) {
    log().warn("there is no checkpoint in {} to go on from: the run begins anew", settings.folder);
  }
  result.parts = parallel::parts_of(model);
  if (result.any() && (replicas.rank() == 0 || shared_out)) {
    result.tensors = folder.open(result.step()).tensors;
    const at::NoGradGuard no_gradients;
    parallel::Parameters parameters = parallel::parameters_of(model);
    std::erase_if(parameters, [&](const auto& one) { return shared_out && one.tensor.requires_grad(); });
    load_into(parameters, result, "");
    load_into(parallel::buffers_of(model), result, "");
  }
  if (result.any()) check_same_data(result.facts.value("data", nlohmann::json()), data);
  return result;
}

std::optional<Layout> layout_before(const std::string& folder) {
  const CheckpointFolder checkpoints(folder);
  const auto steps = checkpoints.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      return noted_layout(checkpoints.facts(*step).value("layout", nlohmann::json()));
    } catch (const Error&) {
      // Spoilt, which resume() tells of; it goes on from the one before.
    } catch (const nlohmann::json::exception&) {
    }
  }
  return std::nullopt;
}

std::optional<Layout> layout_before(const std::string& folder, comm::Communicator& group) {
  nlohmann::json all;
  if (group.rank() == 0) {
    if (const auto layout = layout_before(folder)) all = noted(*layout);
  }
  return noted_layout(nlohmann::json::parse(group.broadcast_bytes(all.dump(), 0)));
}

void load_into(const parallel::Parameters& targets, const Resumed& resumed, const std::string& prefix) {
  for (const auto& [name, tensor] : targets) {
    if (resumed.tensors.read_into(tensor, prefix + name, part_of(resumed.parts, name, tensor))) continue;
    fail(Fault::Usage, fmt::format("the checkpoint holds no '{}{}' of that shape: it is of another model or optimizer",
                                   prefix, name));
  }
}

}  // namespace lockstep::train
