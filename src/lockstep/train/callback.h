// lockstep/train/callback.h
//
// A Callback is an Observer that takes part in the run: it may refuse a step, end the run,
// or lend other weights to evaluations. All ranks have the same ones, which see the same
// figures and so do the same. What one remembers is in every checkpoint. A new one is one new
// file in callbacks/; a recipe asks for it by a table of its name: [callbacks.NAME].
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/core/config.h"
#include "lockstep/core/registry.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/train/observer.h"

namespace torch::nn {
class Module;
}

namespace lockstep::train {

/// Of a step, before the optimiser takes it.
struct StepFindings {
  std::int64_t step = 0;     // from 1 on
  double loss = 0;           // mean over all ranks
  double gradient_norm = 0;  // before clipping, for those who look at gradients
};

struct Verdict {
  enum class Do : std::uint8_t { Step, Skip, Fail };
  Do what = Do::Step;
  /// Said to the user together with whose gradients they were. A step skipped without a word is not looked into.
  std::string why = {};
};

class Callback : public Observer {
 public:
  virtual std::string name() const = 0;

  /// Once the model has its first weights, or those of a checkpoint; before the state is set.
  virtual void attach(torch::nn::Module& /*model*/) {}
  /// Whether it keeps copies of the weights that it is attached to.
  virtual bool keeps_weights() const { return false; }
  /// Whether judge() may object: then the optimiser waits for all gradients.
  virtual bool judges() const { return false; }
  /// Whether judge() wants the norm of the gradients, which takes a pass over them.
  virtual bool looks_at_gradients() const { return false; }
  /// Unless the loss is no number and nobody skips the step, one that nobody objects to is taken.
  virtual Verdict judge(const StepFindings& /*findings*/) { return {}; }
  /// Around validation and test; what is changed on the weights in the one is taken back in the other.
  virtual void before_evaluation() {}
  virtual void after_evaluation() {}
  /// Why the run is to end now; "": it is not.
  virtual std::string wants_end() const { return ""; }

  /// What it remembers, to go on after a restart: numbers, and tensors that are copied into.
  virtual nlohmann::json state() const { return nullptr; }
  virtual void set_state(const nlohmann::json& /*state*/) {}
  virtual parallel::Parameters tensors() const { return {}; }
};

using CallbackRegistry = Registry<std::unique_ptr<Callback>(const Config& recipe, const std::string& key)>;

/// One for each table under `key`.
std::vector<std::shared_ptr<Callback>> make_callbacks(const Config& recipe, const std::string& key);

}  // namespace lockstep::train
