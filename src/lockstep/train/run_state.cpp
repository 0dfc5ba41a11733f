#include "lockstep/train/run_state.h"

#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "lockstep/core/log.h"
#include "lockstep/parallel/broadcast.h"

namespace lockstep::train {
namespace {

constexpr const char kOptimizer[] = "optimizer/";
std::string prefix_of(const Callback& callback) { return callback.name() + "/"; }

void add(parallel::Parameters& all, const std::string& prefix, parallel::Parameters some) {
  for (auto& [name, tensor] : some) all.push_back({prefix + name, std::move(tensor)});
}

/// What another schedule or optimizer remembered means nothing to this one: false, and it is said.
bool is_of_same(const std::string& what, const std::string& name, const Resumed& resumed, comm::Communicator& group) {
  const auto before = resumed.facts.value(what + "_name", name);
  if (before != name && group.world_rank(group.rank()) == 0) {
    log().warn("the checkpoint is of a run with {}.name = \"{}\", now it is \"{}\", which begins anew", what, before,
               name);
  }
  return before == name;
}

void restore(Callback& callback, const Resumed& resumed, comm::Communicator& group) {
  const auto states = resumed.facts.value("callbacks", nlohmann::json());
  if (!states.contains(callback.name())) return;
  callback.set_state(states.at(callback.name()));
  const at::NoGradGuard no_gradients;
  if (group.rank() == 0) load_into(callback.tensors(), resumed, prefix_of(callback));
  parallel::broadcast_(callback.tensors(), group, 0, "callback");
}

}  // namespace

void note(Checkpoint& checkpoint, const parallel::BucketOptimizer& optimizer, const RunState& state) {
  auto& [step, facts, tensors, own, parts, readers] = checkpoint;
  facts["optimizer_name"] = optimizer.name();
  facts["optimizer_steps"] = optimizer.steps();
  const auto own_parts = optimizer.own_parts();
  for (const auto& [name, values] : optimizer.states()) {
    if (values.is_meta()) readers[kOptimizer + name] = [&optimizer, name = name] { return optimizer.state(name); };
    if (own_parts.empty()) {
      tensors.push_back({kOptimizer + name, values});
      continue;
    }
    own.push_back({kOptimizer + name, values});
    parts.emplace(kOptimizer + name, own_parts.at(name.substr(name.rfind('/') + 1)));
  }
  facts["schedule_name"] = state.schedule.name;
  facts["schedule"] = state.schedule.state();
  if (state.scaler) facts["loss_scale"] = state.scaler->state();
  for (const auto& callback : state.callbacks) {
    facts["callbacks"][callback->name()] = callback->state();
    add(tensors, prefix_of(*callback), callback->tensors());
  }
}

void restore(const RunState& state, const Resumed& resumed, comm::Communicator& group) {
  if (!resumed.any()) return;
  if (is_of_same("schedule", state.schedule.name, resumed, group)) {
    state.schedule.set_state(resumed.facts.at("schedule").get<std::string>());
  }
  if (state.scaler && resumed.facts.contains("loss_scale")) state.scaler->set_state(resumed.facts.at("loss_scale"));
  for (const auto& callback : state.callbacks) restore(*callback, resumed, group);
}

void restore(parallel::BucketOptimizer& optimizer, const Resumed& resumed, comm::Communicator& group) {
  if (!resumed.any() || !is_of_same("optimizer", optimizer.name(), resumed, group)) return;
  const at::NoGradGuard no_gradients;
  optimizer.set_steps(resumed.facts.value("optimizer_steps", resumed.step()));
  optimizer.load_states([&](const parallel::Parameters& states) { load_into(states, resumed, kOptimizer); });
}

}  // namespace lockstep::train
