#include "lockstep/parallel/chain.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/autograd/autograd.h>

namespace lockstep::parallel {
namespace {

bool& is_recomputing() noexcept {
  thread_local bool now = false;
  return now;
}

/// Torch's own, from which its layers draw on this device.
std::vector<at::Generator> generators_of(c10::Device device) {
  std::vector<at::Generator> all{at::detail::getDefaultCPUGenerator()};
  if (device.is_cuda()) all.push_back(at::globalContext().defaultGenerator(device));
  return all;
}

std::vector<at::Tensor> states_of(std::vector<at::Generator> generators) {
  std::vector<at::Tensor> states;
  for (auto& generator : generators) {
    const std::lock_guard lock(generator.mutex());
    states.push_back(generator.get_state());
  }
  return states;
}

void set_states(std::vector<at::Generator> generators, const std::vector<at::Tensor>& states) {
  for (std::size_t number = 0; number < states.size(); ++number) {
    const std::lock_guard lock(generators[number].mutex());
    generators[number].set_state(states[number]);
  }
}

bool equal(const std::vector<at::Tensor>& some, const std::vector<at::Tensor>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const at::Tensor& one, const at::Tensor& other) { return at::equal(one, other); });
}

/// With the key of forward and what it drew from, and so with the same masks.
class Recomputation {
 public:
  Recomputation(const RandomKey& key, c10::Device device, const std::vector<at::Tensor>& drawn_from)
      : key_before_(std::exchange(random_key(), key)), generators_(generators_of(device)) {
    is_recomputing() = true;
    if (drawn_from.empty()) return;
    states_before_ = states_of(generators_);
    set_states(generators_, drawn_from);
  }
  ~Recomputation() {
    is_recomputing() = false;
    random_key() = key_before_;
    set_states(generators_, states_before_);
  }
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  RandomKey key_before_;
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> states_before_;
};

LinkObserver& nobody() {
  static LinkObserver observer;
  return observer;
}

/// A tensor of its own graph.
at::Tensor leaf_of(const at::Tensor& values, bool wants_slopes) {
  at::Tensor leaf = values.detach();
  leaf.requires_grad_(wants_slopes && leaf.is_floating_point());
  return leaf;
}

at::Tensor forwarded(const Link& link, const at::Tensor& input, const LinkScope& make_scope) {
  const auto scope = make_scope ? make_scope() : nullptr;
  return link.forward(input);
}

}  // namespace

bool recomputing() noexcept { return is_recomputing(); }

bool uses(const Link& link, const std::string& parameter) {
  return std::any_of(link.modules.begin(), link.modules.end(),
                     [&](const std::string& module) { return module.empty() || parameter.starts_with(module + "."); });
}

at::Tensor run(const Chain& chain, std::size_t first, std::size_t last, at::Tensor values, LinkObserver* observer,
               const LinkScope& scope) {
  if (observer == nullptr) observer = &nobody();
  const bool any = values.defined();
  for (std::size_t link = first; link < last; ++link) {
    observer->before_forward(link, link + 1 < last ? NextLink(link + 1) : std::nullopt);
    if (any) values = forwarded(chain[link], values, scope);
  }
  return values;
}

at::Tensor run(const Chain& chain, at::Tensor values) { return run(chain, 0, chain.size(), std::move(values)); }

ChainPass::ChainPass(const Chain& chain, std::size_t first, std::size_t last, Options options)
    : chain_(chain), first_(first), last_(last), options_(std::move(options)) {
  if (options_.observer == nullptr) options_.observer = &nobody();
}

at::Tensor ChainPass::through(std::size_t link, const at::Tensor& input, Step& step) const {
  step.input = leaf_of(input, link > 0);  // nobody asks for the slopes of samples
  step.output = forwarded(chain_[link], step.input, options_.scope);
  return step.output;
}

at::Tensor ChainPass::forward(const at::Tensor& input) {
  key_ = random_key();
  at::Tensor values = input;
  for (std::size_t link = first_; link < last_; ++link) {
    Step& step = steps_.emplace_back();
    options_.observer->before_forward(link, after(link));
    if (options_.recomputes && options_.recomputes(link)) {
      const at::NoGradGuard no_gradients;
      step.input = values.detach();
      const auto generators = generators_of(values.device());
      auto states = states_of(generators);
      values = forwarded(chain_[link], values, options_.scope);
      if (!equal(states, states_of(generators))) step.drawn_from = std::move(states);
    } else {
      values = through(link, values, step).detach();
    }
  }
  return values;
}

at::Tensor ChainPass::backward(at::Tensor slopes) {
  for (std::size_t link = last_; link-- > first_;) {
    Step step = std::move(steps_.back());
    steps_.pop_back();
    options_.observer->before_backward(link, before(link));
    // None: the link behind does not depend on this one by autograd, so that there is nothing to go back for.
    if (slopes.defined() && !step.output.defined()) {
      const Recomputation again(key_, step.input.device(), step.drawn_from);
      (void)through(link, step.input, step);
    }
    if (slopes.defined() && step.output.requires_grad()) torch::autograd::backward({step.output}, {slopes});
    slopes = step.input.grad();
    step = {};  // before the weights that it may hold on to are given up
    if (LateGradients::now() == nullptr) options_.observer->after_backward(link, before(link));
  }
  return slopes;
}

void ChainPass::finish_backward(LateGradients& late) {
  late.compute();
  for (std::size_t link = last_; link-- > first_;) options_.observer->after_backward(link, before(link));
}

void ChainPass::pass_over_forward() const { (void)run(chain_, first_, last_, at::Tensor(), options_.observer); }

void ChainPass::pass_over_backward() const {
  for (std::size_t link = last_; link-- > first_;) {
    options_.observer->before_backward(link, before(link));
    if (LateGradients::now() == nullptr) options_.observer->after_backward(link, before(link));
  }
}

}  // namespace lockstep::parallel
