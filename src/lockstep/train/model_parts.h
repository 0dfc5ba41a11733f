// lockstep/train/model_parts.h
//
// What a rank's part of a model means beside those of other ranks, where the mesh cuts it:
// which parameters others have, too, and the sums over all parts that a step asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/gradient_engine.h"
#include "lockstep/parallel/mesh.h"
#include "lockstep/train/task.h"

namespace lockstep::train {

/// Names of parameters that this stage of a pipeline shares with others.
std::set<std::string> tied_parameters(Task& task, int stages);

class ModelParts {
 public:
  /// Where ranks share the weights out, each shard is on `copies` ranks of the data axis. A collective of the mesh.
  ModelParts(parallel::Mesh& mesh, Task& task, parallel::GradientEngine& engine, int copies = 1);

  /// Whether a rank has less than all of the model.
  bool cut() const noexcept { return axes_.size() > 1; }
  const parallel::GradientEngine& engine() const noexcept { return engine_; }
  /// Of a parameter or buffer, also behind a slash ("optimizer/exp_avg/NAME"): whether a rank of another part of the
  /// model speaks for it.
  bool counts_elsewhere(const std::string& tensor) const {
    return copies_.contains(tensor.substr(tensor.rfind('/') + 1));
  }
  /// Elements that are trained, of the whole model.
  std::int64_t parameters() const noexcept { return parameters_; }
  /// After backward: gradients of weights that several stages use become those of all of them, and those of which ranks
  /// of the tensor axis have shares, by slices of time, their sum.
  void complete_gradients();
  /// Over all parameters that are trained, each counted once. A collective if the model is cut or its weights are
  /// shared out.
  double gradient_norm() const;
  /// Whether all elements of what the buckets have are numbers, on all ranks. A collective then.
  bool gradients_finite() const;
  bool weights_finite() const;
  /// Fault::Comm if ranks of the tensor axis do not have the same of what is not split over them, or stages of weights
  /// that they share. A collective then.
  void check_equal() const;

 private:
  void make_ties(Task& task, comm::Communicator& stages);
  void check_alike(const std::set<std::string>& weights, comm::Communicator& ranks) const;
  static double summed(double mine, comm::Communicator& ranks);
  bool on_all_parts(bool here) const { return summed(here ? 0 : 1, parts_) == 0; }

  parallel::GradientEngine& engine_;
  comm::Communicator& axes_;  // ranks that have other parts of the model, for the same samples
  comm::Communicator& tensor_;
  comm::Communicator& parts_;  // all ranks that have other elements than this one
  int copies_of_shards_;
  struct Tie {
    std::unique_ptr<comm::Communicator> stages;  // that use the same weights, this one among them
    std::set<std::string> weights;
  };
  std::vector<Tie> ties_;             // in an order that all stages have
  std::set<std::string> partial_;     // of whose gradients ranks of the tensor axis have shares
  std::set<std::string> copies_;      // tensors that count on another rank
  std::set<std::string> everywhere_;  // that all ranks of the tensor axis have
  std::int64_t parameters_ = 0;
};

}  // namespace lockstep::train
