#include "lockstep/parallel/gradient_sink.h"

#include <utility>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "lockstep/parallel/late_gradients.h"

namespace lockstep::parallel {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::unique_ptr<GradientSink> sink) : sink_(std::move(sink)) {}
  void operator()(const at::Tensor& parameter) override {
    const LateGradients* late = LateGradients::now();
    if (late == nullptr || !late->holds(parameter)) sink_->ready();
  }
  GradientSink* sink() const noexcept { return sink_.get(); }

 private:
  std::unique_ptr<GradientSink> sink_;
};

}  // namespace

void set_gradient_sink(const at::Tensor& parameter, std::unique_ptr<GradientSink> sink) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, sink ? std::make_unique<Hook>(std::move(sink)) : nullptr);
}

GradientSink* gradient_sink(const at::Tensor& parameter) {
  const auto* hook = dynamic_cast<Hook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
  return hook == nullptr ? nullptr : hook->sink();
}

void move_gradient(const at::Tensor& parameter, const at::Tensor& target) {
  at::Tensor& gradient = parameter.mutable_grad();
  if (gradient.is_sparse()) gradient = gradient.to_dense();
  if (gradient.const_data_ptr() == target.const_data_ptr()) return;
  target.copy_(gradient);
  gradient = target;
}

}  // namespace lockstep::parallel
