#include "lockstep/train/precision.h"

#include <array>
#include <set>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/layers/layer.h"

namespace lockstep::train {
namespace {

constexpr std::array<std::pair<const char*, Precision>, 4> kNames = {{{"float32", Precision::Float32},
                                                                      {"float64", Precision::Float64},
                                                                      {"bf16", Precision::Bf16},
                                                                      {"fp16", Precision::Fp16}}};

}  // namespace

Precision precision_named(const std::string& name) {
  for (const auto& [known, precision] : kNames) {
    if (name == known) return precision;
  }
  fail(Fault::Usage, fmt::format("precision = \"{}\": it is \"float32\", \"float64\", \"bf16\" or \"fp16\"", name));
}

void convert_(torch::nn::Module& model, Precision precision) {
  if (precision != Precision::Float64) return;
  // Not by Module::to(), which makes numbers of indices and counts too.
  const at::NoGradGuard no_gradients;
  // What nobody has filled yet may never be there as a whole: its pages are not touched.
  std::set<const at::TensorImpl*> unfilled;
  parallel::for_each_declared(model, [&](const std::string&, const parallel::Layer::Declared& declared) {
    if (!declared.filled) unfilled.insert(declared.tensor.unsafeGetTensorImpl());
  });
  for (const auto& tensors : {model.parameters(), model.buffers()}) {
    for (const auto& tensor : tensors) {
      if (!tensor.defined() || !tensor.is_floating_point()) continue;
      tensor.set_data(unfilled.contains(tensor.unsafeGetTensorImpl())
                          ? at::empty(tensor.sizes(), tensor.options().dtype(at::kDouble))
                          : tensor.to(at::kDouble));
    }
  }
}

void convert_(data::Batch& batch, Precision precision) {
  const auto type = precision == Precision::Float64 ? at::kDouble : at::kFloat;
  for (auto& tensor : batch.tensors) {
    if (tensor.defined() && tensor.is_floating_point()) tensor = tensor.to(type);
  }
}

Autocast::Autocast(Precision precision, c10::DeviceType device)
    : on_(precision == Precision::Bf16 || precision == Precision::Fp16), device_(device) {
  if (!on_) return;
  at::autocast::set_autocast_dtype(device_, precision == Precision::Bf16 ? at::kBFloat16 : at::kHalf);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace lockstep::train
