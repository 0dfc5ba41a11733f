// apps/bench/parallel_case.h
//
// What `lockstep bench parallel` trains: a GPT, with the strategies by which it is cut over ranks.
// benchmarks/peers/train_parallel.py has those of PyTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "bench/train_case.h"
#include "lockstep/core/handle.h"

namespace lockstep::apps {

struct ParallelGpt {
  // A block has as many weights as the head, so that two stages of a pipeline have the same to do.
  std::int64_t width = 256;
  std::int64_t layers = 5;
  std::int64_t heads = 8;
  std::int64_t context = 128;
  std::int64_t vocabulary = 3072;
  std::int64_t batch = 16;  // of all ranks together

  /// --width, --layers and the others.
  void add_options(CLI::App& command);
  std::vector<std::string> arguments() const;

  /// With random tokens, the same in every step: it learns them by heart.
  TrainCase train_case() const;
  /// First links of the stages of a pipeline, and the number of links, whose head is not tied.
  std::vector<std::size_t> cuts(int stages) const;
  /// First weights and the tokens of a step, as safetensors, so that others begin with the same.
  FileDescriptor start(bool tied) const;
};

struct ParallelCase {
  std::string name;
  std::string schedule;  // of a pipeline
  /// PyTorch's pipelines have no way to sum the gradients of a weight that two stages use: for them the head has
  /// weights of its own, on both sides.
  bool tied() const noexcept { return schedule.empty(); }
  /// Of our recipe.
  std::vector<std::string> settings(int ranks, int micro_batches) const;
};

const std::vector<std::string>& parallel_case_names();
/// Those of that name, one for each schedule. Fault::Usage if there is none, proposing the nearest.
std::vector<ParallelCase> parallel_cases(const std::string& name);

}  // namespace lockstep::apps
