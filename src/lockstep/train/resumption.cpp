#include "lockstep/train/resumption.h"

#include <map>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/train/data_facts.h"

namespace lockstep::train {

data::Position Resumed::position() const {
  if (!any()) return {};
  return {facts.at("epoch").get<std::int64_t>(), facts.at("sample").get<std::int64_t>()};
}

Resumed resume(const CheckpointSettings& settings, comm::Communicator& group, torch::nn::Module& model,
               const nlohmann::json& data) {
  if (!settings.resume || settings.folder.empty()) return {};
  Resumed result;
  if (group.rank() == 0) {
    if (auto newest = CheckpointFolder(settings.folder).newest()) {
      result = {std::move(newest->facts), std::move(newest->tensors)};
      const at::NoGradGuard no_gradients;
      load_into(parallel::parameters_of(model), result.tensors, "");
      load_into(parallel::buffers_of(model), result.tensors, "");
    } else {
      log().warn("there is no checkpoint in {} to go on from: the run begins anew", settings.folder);
    }
  }
  result.facts = nlohmann::json::parse(group.broadcast_bytes(result.facts.dump(), 0));
  if (result.any()) check_same_data(result.facts.value("data", nlohmann::json()), data);
  return result;
}

void load_into(const parallel::Parameters& targets, const parallel::Parameters& tensors, const std::string& prefix) {
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : tensors) by_name.emplace(name, tensor);
  for (const auto& [name, tensor] : targets) {
    const auto found = by_name.find(prefix + name);
    if (found == by_name.end() || found->second.sizes() != tensor.sizes()) {
      fail(Fault::Usage,
           fmt::format("the checkpoint holds no '{}{}' of that shape: it is of another model or optimizer", prefix,
                       name));
    }
    at::Tensor target = tensor;
    target.copy_(found->second);
  }
}

}  // namespace lockstep::train
