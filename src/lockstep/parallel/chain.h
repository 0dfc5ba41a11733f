// lockstep/parallel/chain.h
//
// A model as a chain of links, each of which takes the tensor that the one before it gives. The
// graph of autograd is cut between links, and backward goes through them by hand, last to first:
// so whoever drives a chain can bring a link's weights in before it is used, give its activations
// up and compute them again, or leave other links to other ranks, and no link knows of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/late_gradients.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {

struct Link {
  std::string name;                  // "h.3"
  std::vector<std::string> modules;  // of the model, whose parameters it uses; "" is the model itself
  std::function<at::Tensor(const at::Tensor&)> forward;
};
using Chain = std::vector<Link>;

/// Whether a parameter of this name is one of the link's.
bool uses(const Link& link, const std::string& parameter);

/// The link that the samples go to from here; none: they leave the links that are driven together.
using NextLink = std::optional<std::size_t>;

/// What somebody wants to do around links; all on the thread that drives the chain. Ranks of a group that drive the
/// same links call all of it in the same order, whether or not they have samples.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  virtual void before_forward(std::size_t /*link*/, NextLink /*next*/) {}
  virtual void before_backward(std::size_t /*link*/, NextLink /*next*/) {}
  /// All gradients that there will be of its weights are there.
  virtual void after_backward(std::size_t /*link*/, NextLink /*next*/) {}
};

/// What it returns lives as long as forward of a link runs, also when it runs again: such as the numbers that layers
/// compute in. Of one link, so that what it keeps of weights, as autocast does, goes with them.
using LinkScope = std::function<std::shared_ptr<void>()>;

/// Links [first, last) without a thought of backward. Undefined values are no samples.
at::Tensor run(const Chain& chain, std::size_t first, std::size_t last, at::Tensor values,
               LinkObserver* observer = nullptr, const LinkScope& scope = {});
at::Tensor run(const Chain& chain, at::Tensor values);

/// Whether the calling thread computes a link's activations once more: what forward counts is counted already.
bool recomputing() noexcept;

/// Some samples on their way through links [first, last) of a chain and back.
class ChainPass {
 public:
  struct Options {
    /// Of a link: only its input is kept, and its activations are computed again in backward, with the chance of
    /// forward, whether layers draw by key or from torch's default generators. These a process has once: ranks that are
    /// its threads must not draw from them at the same time.
    std::function<bool(std::size_t link)> recomputes = {};
    LinkObserver* observer = nullptr;
    LinkScope scope = {};
  };
  ChainPass(const Chain& chain, std::size_t first, std::size_t last, Options options);

  at::Tensor forward(const at::Tensor& input);
  /// `slopes` are those of the output; undefined: nothing that is trained depends on it. Returns the input's; undefined
  /// if it has none, as numbers of words.
  at::Tensor backward(at::Tensor slopes);
  /// After a backward that has left gradients of weights to `late`.
  void finish_backward(LateGradients& late);

  // Instead of them where there are no samples: nothing is done but what the observer does.
  void pass_over_forward() const;
  void pass_over_backward() const;

 private:
  /// What backward of a link needs.
  struct Step {
    at::Tensor input, output;                 // without output: to be computed again
    std::vector<at::Tensor> drawn_from = {};  // states of torch's generators that it drew from; none: it drew nothing
  };
  NextLink after(std::size_t link) const noexcept { return link + 1 < last_ ? NextLink(link + 1) : std::nullopt; }
  NextLink before(std::size_t link) const noexcept { return link > first_ ? NextLink(link - 1) : std::nullopt; }
  at::Tensor through(std::size_t link, const at::Tensor& input, Step& step) const;

  const Chain& chain_;
  std::size_t first_, last_;
  Options options_;
  RandomKey key_;  // of forward
  std::vector<Step> steps_;
};

}  // namespace lockstep::parallel
