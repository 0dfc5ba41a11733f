// lockstep/train/costs_testing.h
//
// For tests: models that are nothing but numbers.
#pragma once

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/parallel/link_costs.h"
#include "lockstep/train/layout.h"

namespace lockstep::train::testing {

/// A chain of equal links.
struct MadeUp {
  int links = 4;
  std::int64_t weights = 1000;  // of a link, float32
  double kept = 0;              // bytes of a sample, of a link
  double peak = 0;
  double output = 0;
  double summed = 0;  // where layers are split
};

/// Where its layers are split over so many ranks, all of their weights are.
inline parallel::ModelCosts made_up(const MadeUp& model, int tensor = 1) {
  parallel::ModelCosts costs;
  for (int link = 0; link < model.links; ++link) {
    const std::string name = fmt::format("link{}", link);
    costs.chain.push_back({name, {name}, {}});
    const at::Tensor shape = at::empty({model.weights / tensor}, at::TensorOptions(at::kFloat).device(at::kMeta));
    costs.parameters.push_back({name + ".weight", shape.requires_grad_()});
    costs.links.push_back({.seconds = {0, 1},
                           .output = {0, model.output},
                           .kept = {0, model.kept / tensor},
                           .peak = {0, model.peak / tensor},
                           .summed = {0, tensor > 1 ? model.summed : 0}});
  }
  costs.input = {0, model.output};
  return costs;
}

/// Adam's states, and a step that is not fused.
inline RunFacts facts_with(std::int64_t batch) {
  return {.batch = [batch](int) { return batch; },
          .optimizer_states = 2,
          .fuses = [](const Layout&, bool) { return false; }};
}

}  // namespace lockstep::train::testing
