// lockstep/parallel/gradient_engine.h
//
// Who has a model's parameters and what becomes of their gradients over the ranks that see other
// samples: every rank has all of them (DataParallel), or each a share (ShardedParallel). What both do
// for whoever trains stands here.
//
// One thread at a time uses it; hooks run on the threads of backward.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/buckets.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/parallel/memory_use.h"
#include "lockstep/parallel/parameter.h"

namespace lockstep::parallel {

class Offload;

class GradientEngine {
 public:
  virtual ~GradientEngine() = default;

  /// Whether the next backward is the last before finish(). Without it gradients need not go to other ranks yet.
  virtual void reduce_in_backward(bool last) noexcept = 0;
  /// Once, after backward of the first step, the buckets find their places: true then. State that lies beside them is
  /// made after it.
  virtual bool lay_out() = 0;
  /// Returns once the gradients of the buckets are those of all ranks. Lays out first, if that is still to be done.
  virtual void finish() = 0;
  /// After the optimiser has changed the weights of the buckets.
  virtual void weights_changed() = 0;
  /// Before the next step: what follows replaces the gradients instead of adding to them.
  virtual void drop_gradients() = 0;
  /// Whether backward has brought gradients since the last finish().
  virtual bool begun() const noexcept = 0;

  /// Gradients of parameters that were said to be held are not complete after backward: they are left alone until
  /// release(), once in every step. Returns them by name, for whoever completes them in place; zeros if backward
  /// brought none, and of shared out ones this rank's elements.
  virtual Parameters held() = 0;
  virtual void release() = 0;

  /// Of a model that is a chain: who wants to be told of its links, in forward and backward. nullptr: nobody.
  virtual LinkObserver* observer() noexcept { return nullptr; }
  /// Whether ranks have different elements in their buckets.
  virtual bool shared_out() const noexcept { return false; }
  /// Whether parameters have all their values between steps.
  virtual bool has_whole_weights() const noexcept { return true; }

  /// What is stepped.
  virtual const Buckets& buckets() const noexcept = 0;
  /// Where states of the optimiser lie, and maybe weights, which the buckets have no memory for then; nullptr: nowhere
  /// but in memory.
  virtual Offload* offload() noexcept { return nullptr; }
  /// What this rank's buckets have of a parameter, wherever it lies.
  virtual at::Tensor weight(std::size_t parameter) const { return buckets().weight(parameter); }
  /// Those that are trained, in the model's order.
  virtual const Parameters& parameters() const noexcept = 0;
  /// What this rank's buckets have of their gradients, after finish().
  virtual Parameters gradients() const = 0;
  /// Of weights and gradients, and of buffers so far.
  virtual MemoryUse memory() const = 0;
  /// Names of parameters that backward reached on no rank in the first step.
  virtual std::vector<std::string> unused() const = 0;
  /// Fault::Comm naming the ranks whose weights are not those of most. A collective.
  virtual void check_equal() const = 0;
};

/// Those that require a gradient. Fault::Usage if there are none, or one has two names.
Parameters trained(const Parameters& all);

}  // namespace lockstep::parallel
