#include "lockstep/parallel/broadcast.h"

#include <vector>

#include <ATen/core/grad_mode.h>

namespace lockstep::parallel {

void broadcast_(const Parameters& tensors, comm::Communicator& group, int root, const char* what) {
  if (tensors.empty()) return;
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> on_host;
  for (const auto& [name, tensor] : tensors) on_host.push_back(tensor.detach().cpu());
  group.broadcast_(on_host, root, {.name = what}).wait();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].tensor.is_cpu()) tensors[i].tensor.detach().copy_(on_host[i]);
  }
}

}  // namespace lockstep::parallel
