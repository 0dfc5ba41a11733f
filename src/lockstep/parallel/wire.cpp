#include "lockstep/parallel/wire.h"

namespace lockstep::parallel {

std::unique_ptr<Wire> make_wire(const Config& recipe, const std::string& key) {
  const std::string name = recipe.get(key + ".name", "none");
  if (name == "none") return nullptr;
  return WireRegistry::instance().at("wire", name)(recipe, key);
}

}  // namespace lockstep::parallel
