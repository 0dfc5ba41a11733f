// lockstep/parallel/link_probe.h
//
// Measures what the links of a model cost, by one and by two samples that pass each of them, forward and
// back (by two and three where a norm refuses one alone). The model's own parameters are neither read nor
// touched: while a link is probed it has some values of its own, so that a model may be larger than memory
// as long as each single link is not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/link_costs.h"

namespace torch::nn {
class Module;
}

namespace lockstep::parallel {

struct ProbeOptions {
  /// What it returns lives while forward of a link runs, see ChainPass.
  std::function<std::shared_ptr<void>()> scope = {};
  at::ScalarType type = at::kFloat;  // of parameters and real buffers
  /// Over which layers are split; nullptr: they are whole.
  const comm::Communicator* tensor = nullptr;
  /// Fault::Usage, naming the link, if one needs more for its weights and gradients; 0: any.
  std::int64_t most_bytes = 0;
};

/// `input` makes so many samples for the first link, `loss` a scalar of what the last one gives, whose slopes go back.
/// Links whose parameters have the same names within their modules and the same shapes are measured once. Nobody else
/// uses the model meanwhile.
ModelCosts probe_links(torch::nn::Module& model, const Chain& chain,
                       const std::function<at::Tensor(std::int64_t samples)>& input,
                       const std::function<at::Tensor(const at::Tensor& outputs)>& loss,
                       const ProbeOptions& options = {});

}  // namespace lockstep::parallel
