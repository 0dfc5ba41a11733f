// lockstep/parallel/late_gradients.h
//
// Gradients of weights that are computed after those of activations: nobody waits for them, so
// a pipeline may fill with them the time in which a stage would have nothing to do. While a
// Deferral lives, layers that can leave theirs here do so.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::parallel {

class LateGradients {
 public:
  void add(const at::Tensor& parameter, std::function<void()> work) { works_.push_back({parameter, std::move(work)}); }
  /// Whether backward has left some of this parameter's.
  bool holds(const at::Tensor& parameter) const {
    return std::any_of(works_.begin(), works_.end(), [&](const Late& one) { return one.parameter.is_same(parameter); });
  }
  /// In the order in which backward left them.
  void compute() {
    for (const auto& [parameter, work] : std::exchange(works_, {})) work();
  }

  /// Of the calling thread; nullptr: gradients are computed at once.
  static LateGradients* now() noexcept;

  class Deferral {
   public:
    explicit Deferral(LateGradients& to) noexcept;
    ~Deferral();
    Deferral(const Deferral&) = delete;
    Deferral& operator=(const Deferral&) = delete;
  };

 private:
  struct Late {
    at::Tensor parameter;
    std::function<void()> work;
  };
  std::vector<Late> works_;
};

}  // namespace lockstep::parallel
