// lockstep/parallel/bucket_optimizer.h
//
// Steps an Optimizer over buckets, with what it remembers beside them, and settings by
// groups of parameters, which are chosen by patterns of their names. Of a group of ranks each may keep
// and step its own elements only. What it remembers may lie in a file (Offload) and come into memory piece by piece.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/buckets.h"
#include "lockstep/parallel/offload.h"
#include "lockstep/parallel/optimizer.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/parallel/parameter_part.h"

namespace lockstep::parallel {

/// Parameters whose names fit one of the patterns ("*" is anything) learn otherwise than the rest. Of several groups
/// that fit, the last that says something of the one or the other counts.
struct ParameterGroup {
  std::vector<std::string> patterns;
  std::optional<double> lr_factor = {};
  std::optional<double> weight_decay = {};
};

class BucketOptimizer {
 public:
  /// Whose elements this one steps.
  enum class Of : std::uint8_t { AllRanks, OwnRank };

  /// The first of `groups` is that of all parameters.
  BucketOptimizer(std::shared_ptr<const Optimizer> optimizer, const Parameters& parameters, const Buckets& buckets,
                  const std::vector<ParameterGroup>& groups, comm::Communicator& ranks, Of elements = Of::AllRanks,
                  Offload* offload = nullptr);

  /// `gradient_scale` multiplies every gradient first.
  void step(double lr, double gradient_scale);
  /// The same in parts, which together are all elements of this rank: [first, first + count) of a bucket lies
  /// within one of them. begin_step() comes first.
  void begin_step(double lr) noexcept;
  void step_part(std::size_t bucket, std::int64_t first, std::int64_t count, const void* gradients,
                 double gradient_scale);
  /// Counts a step in which weights stay as they are.
  void skip_step() noexcept { ++steps_; }

  /// Of what it steps with.
  const std::string& name() const noexcept { return optimizer_->name; }
  /// Taken so far; set for a run that is resumed.
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }
  /// Of what this rank remembers in memory.
  std::int64_t state_bytes() const noexcept;
  /// What is remembered, by "exp_avg/PARAMETER", shaped as the parameter; of shards, and where ranks keep their own
  /// elements, what this rank has of it. What lies in a file is of device meta, and state() reads it.
  Parameters states() const;
  /// By name of a parameter, where ranks keep their own elements: which of them states() has. Else nothing.
  std::map<std::string, ParameterPart> own_parts() const;
  at::Tensor state(const std::string& name) const;
  /// They become what `load` makes, on rank 0 of tensors shaped as the parameters or, of shards, on each of
  /// tensors like those of states(). A collective.
  void load_states(const std::function<void(const Parameters&)>& load);
  /// They become the mean over ranks, in which this one's count by `share`; all shares add up to 1.
  void average_states(double share);

 private:
  struct Pace {
    double lr_factor = 1;
    double weight_decay = 0;
    bool operator==(const Pace&) const = default;
  };
  /// Neighbours in a bucket that learn alike.
  struct Stretch {
    Pace pace;
    std::int64_t first;
    std::int64_t count;
  };
  /// Elements [first, first + count) of a bucket, and where they are.
  struct Elements {
    std::int64_t first, count;
    std::byte* weights;
    const std::byte* gradients;
    std::array<std::byte*, kMostStates> states;
  };
  void step_elements(std::size_t bucket, const Elements& elements, double gradient_scale) const;
  void step_offloaded(double gradient_scale);
  void load_offloaded(const std::function<void(const Parameters&)>& load);
  static std::vector<Pace> paces_of(const Parameters& parameters, const std::vector<ParameterGroup>& groups);
  void cut(const Parameters& parameters, const std::vector<Pace>& paces);
  /// Elements of a parameter that this rank has states of, where they lie one behind the other.
  struct OwnRun {
    std::int64_t of_state = 0;  // the first of them there
    std::int64_t count = 0;
    std::vector<Window> windows;  // of the parameter
  };
  OwnRun own_run(std::size_t parameter) const;
  /// A state of a whole bucket as tensors of its parameters.
  void add_views(Parameters& views, std::size_t bucket, std::size_t number, const at::Tensor& whole) const;
  void add_own(Parameters& views, std::size_t bucket, std::size_t number) const;
  void check_sparse(const Parameter& parameter, const Pace& pace) const;

  std::shared_ptr<const Optimizer> optimizer_;
  const Buckets& buckets_;
  std::vector<std::string> state_names_;
  std::vector<std::string> parameter_names_;
  comm::Communicator& ranks_;
  Offload* offload_;
  bool sharded_;  // ranks have states of different elements, even if one of them has all of a small bucket
  std::vector<std::vector<comm::Slice>> owned_;  // by bucket: of this rank's elements
  // By bucket, then number: of them, one after another; of device meta if they lie in a file.
  std::vector<std::vector<at::Tensor>> states_;
  std::vector<std::vector<Stretch>> stretches_;  // by bucket, in order
  double lr_ = 0;                                // of the step under way
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::parallel
