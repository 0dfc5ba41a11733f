// lockstep/parallel/bucket_optimizer.h
//
// Steps an Optimizer over buckets, with what it remembers beside them, and settings by
// groups of parameters: a group is chosen by the pattern of its names, the last that fits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/buckets.h"
#include "lockstep/parallel/optimizer.h"
#include "lockstep/parallel/parameter.h"

namespace lockstep::parallel {

/// Parameters whose names fit one of the patterns ("*" is anything) learn otherwise than the rest.
struct ParameterGroup {
  std::vector<std::string> patterns;
  double lr_factor = 1;
  double weight_decay = 0;
};

class BucketOptimizer {
 public:
  /// The first of `groups` is that of all parameters that no other names.
  BucketOptimizer(std::shared_ptr<const Optimizer> optimizer, const Parameters& parameters, const Buckets& buckets,
                  std::vector<ParameterGroup> groups);

  /// `gradient_scale` multiplies every gradient first.
  void step(double lr, double gradient_scale);
  /// Counts a step in which weights stay as they are.
  void skip_step() noexcept { ++steps_; }

  /// Taken so far; set for a run that is resumed.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }
  /// What is remembered, by "exp_avg/PARAMETER", shaped as the parameter: views, to be saved or loaded.
  Parameters states() const;
  /// They become those of rank 0.
  void broadcast_states(comm::Communicator& group);
  /// They become the mean over ranks, in which this one's count by `share`; all shares add up to 1.
  void average_states(comm::Communicator& group, double share);

 private:
  /// Neighbours of one group in a bucket.
  struct Stretch {
    std::size_t bucket;
    std::size_t group;
    std::int64_t first;
    std::int64_t count;
  };
  void cut(const Parameters& parameters);
  void check_sparse(const Parameter& parameter, const ParameterGroup& group) const;

  std::shared_ptr<const Optimizer> optimizer_;
  const Buckets& buckets_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> state_names_;
  std::vector<std::string> parameter_names_;
  std::vector<std::vector<at::Tensor>> states_;  // by bucket, then number
  std::vector<Stretch> stretches_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::parallel
