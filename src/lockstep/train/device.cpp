#include "lockstep/train/device.h"

#include <dlfcn.h>

#include <algorithm>

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>

#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/text.h"

namespace lockstep::train {
namespace {

/// How many GPUs there are; if none, why.
int gpus(std::string& why) {
  // It registers itself with torch and stays.
  static void* const library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
  static const std::string error = library == nullptr ? dlerror() : "";
  if (library == nullptr) {
    why = "this torch was built without CUDA (" + error + ")";
    return 0;
  }
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) why = "torch finds no GPU: is the driver loaded, and does CUDA_VISIBLE_DEVICES name one?";
  return count;
}

}  // namespace

c10::Device device_named(const std::string& name, int turn) {
  if (name == "cpu") return c10::kCPU;
  constexpr std::string_view kNumbered = "cuda:";
  if (name != "cuda" && !name.starts_with(kNumbered)) {
    fail(Fault::Usage, fmt::format("device = \"{}\": it is \"cpu\", \"cuda\" or \"cuda:0\", …", name));
  }
  const std::int64_t wanted = name == "cuda" ? -1 : parse_integer("device", name.substr(kNumbered.size()), 0, 127);
  std::string why;
  const int count = gpus(why);
  if (count == 0) {
    fail(Fault::Usage, fmt::format("device = \"{}\": there is no GPU here; {}; use device = \"cpu\"", name, why));
  }
  if (wanted >= count) {
    fail(Fault::Usage, fmt::format("device = \"{}\": there are {} here, from cuda:0 on", name, count));
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(wanted >= 0 ? wanted : turn % count)};
}

c10::Device device_of(const std::string& name, comm::Communicator& group) {
  if (device_named(name, 0).is_cpu()) return c10::kCPU;
  const auto hosts = group.gather_bytes(machine().host);
  const auto mine = hosts.begin() + group.rank();
  return device_named(name, static_cast<int>(std::count(hosts.begin(), mine, *mine)));
}

void move_(torch::nn::Module& model, c10::Device device) {
  if (!device.is_cpu()) model.to(device);
}

void move_untrained_(torch::nn::Module& model, c10::Device device) {
  if (device.is_cpu()) return;
  for (const auto& parameter : model.parameters()) {
    if (!parameter.requires_grad()) parameter.set_data(parameter.to(device));
  }
  for (const auto& buffer : model.buffers()) buffer.set_data(buffer.to(device));
}

void move_(data::Batch& batch, c10::Device device) {
  if (device.is_cpu()) return;
  for (auto& tensor : batch.tensors) {
    // The loss is read from the device before the loader uses this memory again.
    if (tensor.defined()) tensor = tensor.to(tensor.options().device(device), /*non_blocking=*/true);
  }
}

}  // namespace lockstep::train
