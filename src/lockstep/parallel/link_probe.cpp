#include "lockstep/parallel/link_probe.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/core/error.h"
#include "lockstep/core/memory_of_process.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/layers/layer.h"
#include "lockstep/parallel/module_parameters.h"
#include "lockstep/parallel/random_key.h"

namespace lockstep::parallel {
namespace {

/// As gradients go in training: to where somebody wants them.
class Target final : public GradientSink {
 public:
  explicit Target(const at::Tensor& parameter)
      : parameter_(parameter), target_(at::empty(parameter.sizes(), parameter.options().requires_grad(false))) {}
  at::Tensor target() const override { return target_; }
  void ready() override {
    const at::NoGradGuard no_gradients;
    move_gradient(parameter_, target_);
  }

 private:
  // No owner of it: it owns this.
  const at::Tensor& parameter_;
  at::Tensor target_;
};

bool uses(const Link& link, const Parameter& tensor) { return parallel::uses(link, tensor.name); }

/// Values of a link's parameters and buffers, in memory that goes when this does.
class LentValues {
 public:
  LentValues(const torch::nn::Module& model, const Link& link, at::ScalarType type) {
    const at::NoGradGuard no_gradients;
    for (const auto& parameter : parameters_of(model)) {
      if (uses(link, parameter)) lend(parameter.tensor, type);
    }
    parameters_ = own_.size();
    for (const auto& buffer : buffers_of(model)) {
      if (uses(link, buffer)) lend(buffer.tensor, type);
    }
    for (std::size_t number = 0; number < parameters_; ++number) {
      const at::Tensor& parameter = own_[number].first;
      if (parameter.requires_grad()) set_gradient_sink(parameter, std::make_unique<Target>(parameter));
    }
  }
  ~LentValues() {
    drop_gradients();
    for (std::size_t number = 0; number < own_.size(); ++number) {
      const auto& [tensor, values] = own_[number];
      if (number < parameters_) set_gradient_sink(tensor, nullptr);
      tensor.set_data(values);
    }
  }
  LentValues(const LentValues&) = delete;
  LentValues& operator=(const LentValues&) = delete;

  /// What follows replaces them.
  void drop_gradients() const {
    for (std::size_t number = 0; number < parameters_; ++number) own_[number].first.mutable_grad() = at::Tensor();
  }

 private:
  void lend(const at::Tensor& tensor, at::ScalarType type) {
    own_.emplace_back(tensor, tensor.detach());
    // Which ones they are makes no difference to time and memory, if they are no denormal numbers.
    constexpr double kAny = 0.02;
    tensor.set_data(tensor.is_floating_point() ? at::full(tensor.sizes(), kAny, tensor.options().dtype(type))
                                               : tensor.detach().clone());
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> own_;  // with the values that they had
  std::size_t parameters_ = 0;
};

/// Of one pass of some samples.
struct Measured {
  double seconds = std::numeric_limits<double>::infinity();
  std::int64_t output = 0, kept = 0, peak = 0, summed = 0;
  at::Tensor values;  // of the output, for the next link
};

class Probe {
 public:
  Probe(torch::nn::Module& model, const ProbeOptions& options) : model_(model), options_(options) {}

  Measured measure(const Link& link, const at::Tensor& input, bool first) const {
    check_room(link);
    const LentValues values(model_, link, options_.type);
    // A first pass finds caches and memory cold; one that takes long is not repeated.
    constexpr int kPasses = 4;
    constexpr double kLong_s = 0.5;
    Measured best;
    double seconds = 0;
    for (int pass = 0; pass < kPasses && seconds < kLong_s; ++pass) {
      values.drop_gradients();
      Measured now = measure_once(link, input, first);
      seconds += now.seconds;
      now.seconds = std::min(now.seconds, best.seconds);
      best = std::move(now);
    }
    give_back_freed_memory();  // blocks that are of the size of this link
    return best;
  }

 private:
  void check_room(const Link& link) const {
    std::int64_t bytes = 0;
    for (const auto& parameter : parameters_of(model_)) {
      if (uses(link, parameter))
        bytes += parameter.tensor.numel() * static_cast<std::int64_t>(c10::elementSize(options_.type));
    }
    if (options_.most_bytes == 0 || 2 * bytes <= options_.most_bytes) return;
    fail(Fault::Usage, fmt::format("'{}' cannot be measured: its weights and gradients alone take {}, and there are {}",
                                   link.name, format_bytes(2 * bytes), format_bytes(options_.most_bytes)));
  }

  std::int64_t summed_so_far() const {
    if (options_.tensor == nullptr) return 0;
    std::int64_t bytes = 0;
    for (const auto collective :
         {comm::Collective::AllReduce, comm::Collective::AllGather, comm::Collective::ReduceScatter}) {
      bytes += options_.tensor->statistics(collective).bytes;
    }
    return bytes;
  }

  Measured measure_once(const Link& link, const at::Tensor& input, bool first) const {
    using Clock = std::chrono::steady_clock;
    Measured result;
    const at::Tensor leaf = input.detach();
    leaf.requires_grad_(!first && leaf.is_floating_point());
    const std::int64_t summed_before = summed_so_far();
    const AllocationMeter meter;
    const auto begin = Clock::now();
    at::Tensor output = [&] {
      const auto scope = options_.scope ? options_.scope() : nullptr;
      return link.forward(leaf);
    }();
    result.kept = meter.bytes();
    if (output.requires_grad()) torch::autograd::backward({output}, {at::ones_like(output)});
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    result.peak = meter.peak_bytes();
    result.output = static_cast<std::int64_t>(output.nbytes());
    result.summed = summed_so_far() - summed_before;
    result.values = output.detach();
    return result;
  }

  torch::nn::Module& model_;
  const ProbeOptions& options_;
};

/// Of all links, with so many samples.
struct Measurement {
  std::int64_t samples = 0;
  double input = 0;
  std::vector<Measured> links;  // and the loss
};

/// Of two numbers of samples.
struct Measurements {
  Measurement few, more;

  Amount amount(double of_few, double of_more) const {
    const double per_sample = std::max(0.0, (of_more - of_few) / static_cast<double>(more.samples - few.samples));
    return {std::max(0.0, of_few - per_sample * static_cast<double>(few.samples)), per_sample};
  }
  Amount amount(std::size_t link, std::int64_t Measured::* bytes) const {
    return amount(static_cast<double>(few.links[link].*bytes), static_cast<double>(more.links[link].*bytes));
  }
  LinkCosts costs(std::size_t link) const {
    return {.seconds = amount(few.links[link].seconds, more.links[link].seconds),
            .output = amount(link, &Measured::output),
            .kept = amount(link, &Measured::kept),
            .peak = amount(link, &Measured::peak),
            .summed = amount(link, &Measured::summed)};
  }
};

/// Of what a link has and gets; "" if nothing says that another does the same.
std::string likeness(const torch::nn::Module& model, const Link& link, const at::Tensor& input, bool first) {
  if (link.modules.size() != 1 || link.modules.front().empty()) return "";
  std::string all;
  for (const auto& tensors : {parameters_of(model), buffers_of(model)}) {
    for (const auto& [name, tensor] : tensors) {
      if (!parallel::uses(link, name)) continue;
      all += fmt::format("{} {} {};", name.substr(link.modules.front().size()), fmt::join(tensor.sizes(), ","),
                         tensor.requires_grad());
    }
  }
  if (all.empty()) return "";
  return fmt::format("{}{} {} {}", all, fmt::join(input.sizes(), ","), c10::toString(input.scalar_type()), first);
}

Parameters shapes_of(const Parameters& tensors, at::ScalarType type) {
  Parameters shapes;
  for (const auto& [name, tensor] : tensors) {
    const auto of_type = tensor.is_floating_point() ? type : tensor.scalar_type();
    at::Tensor shape = at::empty(tensor.sizes(), at::TensorOptions(of_type).device(at::kMeta));
    shape.requires_grad_(tensor.requires_grad());
    shapes.push_back({name, shape});
  }
  return shapes;
}

}  // namespace

ModelCosts probe_links(torch::nn::Module& model, const Chain& chain,
                       const std::function<at::Tensor(std::int64_t samples)>& input,
                       const std::function<at::Tensor(const at::Tensor& outputs)>& loss, const ProbeOptions& options) {
  const RandomKey key = std::exchange(random_key(), RandomKey());
  struct Restore {
    const RandomKey& key;
    ~Restore() { random_key() = key; }
  } const restore{key};
  const Probe probe(model, options);
  const Link last{"loss", {}, loss};
  const auto measured = [&](std::int64_t samples) {
    at::Tensor values = input(samples);
    Measurement result{samples, static_cast<double>(values.nbytes()), {}};
    std::map<std::string, Measured> known;
    for (std::size_t number = 0; number <= chain.size(); ++number) {
      const Link& link = number < chain.size() ? chain[number] : last;
      const std::string like = likeness(model, link, values, number == 0);
      const auto found = known.find(like);
      result.links.push_back(!like.empty() && found != known.end() ? found->second
                                                                   : probe.measure(link, values, number == 0));
      if (!like.empty()) known.emplace(like, result.links.back());
      values = result.links.back().values;
    }
    return result;
  };
  const Measurements found = [&]() -> Measurements {
    // A norm may not take a sample alone: ours says so, and torch's.
    try {
      return {measured(1), measured(2)};
    } catch (const Error&) {
      return {measured(2), measured(3)};
    } catch (const c10::Error&) {
      return {measured(2), measured(3)};
    }
  }();
  ModelCosts costs;
  costs.parameters = shapes_of(parameters_of(model), options.type);
  costs.buffers = shapes_of(buffers_of(model), options.type);
  costs.partial = partial_parameters(model);
  costs.sparse = !sparse_parameters_of(model).empty();
  costs.input = found.amount(found.few.input, found.more.input);
  for (std::size_t number = 0; number < chain.size(); ++number) {
    costs.chain.push_back({chain[number].name, chain[number].modules, {}});
    costs.links.push_back(found.costs(number));
  }
  costs.loss = found.costs(chain.size());
  return costs;
}

}  // namespace lockstep::parallel
