#include "lockstep/parallel/layers/layer.h"

#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::parallel {
namespace {

int& deferrals() noexcept {
  thread_local int count = 0;
  return count;
}

std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

// Not by named_modules(), which a constructor could not call.
template <class Module, class Work>
void for_each_layer(Module& module, const std::string& path, const Work& work) {
  using Found = std::conditional_t<std::is_const_v<Module>, const Layer, Layer>;
  if (auto* layer = dynamic_cast<Found*>(&module)) work(path, *layer);
  for (const auto& child : module.named_children()) {
    for_each_layer(static_cast<Module&>(*child.value()), joined(path, child.key()), work);
  }
}

}  // namespace

at::Tensor Layer::declare(const std::string& name, const std::vector<std::int64_t>& shape,
                          const InitialValues& begins) {
  at::Tensor tensor = register_parameter(name, at::empty(shape));
  add(name, tensor, begins);
  return tensor;
}

at::Tensor Layer::declare_buffer(const std::string& name, const std::vector<std::int64_t>& shape, double value) {
  at::Tensor tensor = register_buffer(name, at::empty(shape));
  add(name, tensor, InitialValues::constant(value));
  return tensor;
}

void Layer::add(const std::string& name, const at::Tensor& tensor, const InitialValues& begins) {
  declared_.push_back({name, tensor, ParameterPart(tensor.sizes().vec()), begins, deferrals() == 0});
  if (declared_.back().filled) fill_by_torch_(tensor, begins);
}

std::size_t Layer::place_of(const at::Tensor& parameter) const {
  const auto found = std::find_if(declared_.begin(), declared_.end(),
                                  [&](const Declared& one) { return one.tensor.is_same(parameter); });
  return static_cast<std::size_t>(found - declared_.begin());
}

const ParameterPart& Layer::part_of(const at::Tensor& parameter) const { return declared_[place_of(parameter)].part; }

void Layer::begin_with(const at::Tensor& parameter, const InitialValues& values) {
  Declared& declared = declared_[place_of(parameter)];
  declared.begins = values;
  if (declared.filled) fill_by_torch_(declared.tensor, values);
}

void Layer::fill(const std::string& name, std::uint64_t seed, Fill what) {
  for (Declared& one : declared_) {
    if (what == Fill::AllButTrained && one.tensor.requires_grad()) continue;
    if (std::exchange(one.filled, true)) continue;
    fill_(one.tensor, one.part, one.begins, seed, joined(name, one.name));
  }
}

void Layer::cut(const at::Tensor& parameter, const Cut& cut) {
  const at::NoGradGuard no_gradients;
  Declared& declared = declared_[place_of(parameter)];
  declared.part = ParameterPart(declared.part.whole(), cut);
  at::Tensor mine = at::empty(declared.part.shape(), parameter.options().requires_grad(false));
  if (declared.filled) {
    const at::Tensor from = declared.tensor.detach().flatten(), to = mine.view(-1);
    for (const PartRun& run : declared.part.runs()) {
      to.narrow(0, run.of_part, run.count).copy_(from.narrow(0, run.of_whole, run.count));
    }
  }
  declared.tensor.set_data(mine);
}

void Layer::split(const std::string& how, comm::Communicator& group) {
  const auto known = ways();
  if (std::find(known.begin(), known.end(), how) == known.end()) {
    fail(Fault::Usage,
         known.empty() ? fmt::format("'{}': this kind of layer cannot be split", how)
                       : fmt::format("'{}': this kind of layer is split by {}", how, list_some(known, known.size())));
  }
  if (!split_.empty())
    fail(Fault::Usage,
         fmt::format("it is split already, by '{}': two patterns of parallel.tensor_plan name it, make one narrower",
                     split_));
  split_ = how;
  if (group.size() == 1) return;
  ranks_ = &group;
  split_by(how);
}

DeferredFilling::DeferredFilling() noexcept { ++deferrals(); }
DeferredFilling::~DeferredFilling() { --deferrals(); }

void fill_layers(torch::nn::Module& model, std::uint64_t seed, Fill what) {
  for_each_layer(model, "", [&](const std::string& path, Layer& layer) { layer.fill(path, seed, what); });
}

void for_each_declared(const torch::nn::Module& model,
                       const std::function<void(const std::string& name, const Layer::Declared&)>& look) {
  for_each_layer(model, "", [&](const std::string& path, const Layer& layer) {
    for (const auto& one : layer.declared()) look(joined(path, one.name), one);
  });
}

std::map<std::string, ParameterPart> parts_of(const torch::nn::Module& model) {
  std::map<std::string, ParameterPart> parts;
  for_each_declared(model, [&](const std::string& name, const Layer::Declared& one) { parts.emplace(name, one.part); });
  return parts;
}

std::set<std::string> partial_parameters(const torch::nn::Module& model) {
  std::set<std::string> names;
  for_each_declared(model, [&](const std::string& name, const Layer::Declared& one) {
    if (one.partial) names.insert(name);
  });
  return names;
}

}  // namespace lockstep::parallel
