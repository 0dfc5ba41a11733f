#include "lockstep/models/model.h"

#include <mutex>

#include <ATen/Context.h>

#include "lockstep/parallel/layers/dropout.h"

namespace lockstep::models {

std::unique_ptr<Model> make_model(const std::string& name, const Config& recipe, const std::string& key,
                                  const ModelData& data, std::uint64_t seed) {
  static std::mutex mutex;  // ranks may be threads, and torch has one generator for all
  const std::lock_guard lock(mutex);
  at::manual_seed(seed);
  auto model = ModelRegistry::instance().at("model", name)(recipe, key, data);
  parallel::name_layers(model->module());
  return model;
}

}  // namespace lockstep::models
