// apps/bench/train_case.h
//
// The models of `lockstep bench train`, as recipes, and data that costs nothing to read.
// benchmarks/peers/train_ddp.py has the same in PyTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::apps {

struct TrainCase {
  std::string name;
  std::string recipe;   // its model and task, in TOML
  std::int64_t batch;   // of a rank
  data::Schema schema;  // input and, for classification, label
  std::int64_t values;  // inputs are below it: tokens; 0: inputs are real numbers
};

const std::vector<std::string>& train_case_names();
/// Fault::Usage if there is none of that name, proposing the nearest.
const TrainCase& train_case(const std::string& name);
/// Random samples that are repeated until there are `samples`.
data::DatasetPtr data_of(const TrainCase& one, std::int64_t samples);

}  // namespace lockstep::apps
