#include "lockstep/train/callback.h"

namespace lockstep::train {

std::vector<std::shared_ptr<Callback>> make_callbacks(const Config& recipe, const std::string& key) {
  std::vector<std::shared_ptr<Callback>> result;
  for (const auto& name : recipe.keys(key)) {
    const std::string table = key + "." + name;
    (void)recipe.keys(table);  // fails on what is no table; an empty one is fine
    result.push_back(CallbackRegistry::instance().at("callback", name)(recipe, table));
  }
  return result;
}

}  // namespace lockstep::train
