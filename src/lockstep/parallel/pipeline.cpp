#include "lockstep/parallel/pipeline.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/parallel/waiting.h"
#include "lockstep/profile/span.h"

namespace lockstep::parallel {
namespace {

/// Type and shape, which travel ahead of a tensor: micro-batches need not be alike.
constexpr std::size_t kMostDims = 8;
constexpr std::int64_t kHeaderWords = 2 + kMostDims;
/// Instead of the dims: there is no tensor, as of slopes where a link does not depend on its input by autograd.
constexpr std::int64_t kNone = -1;

at::Tensor header_of_none(comm::Communicator& group) {
  at::Tensor header = group.empty({kHeaderWords}, at::kLong).zero_();
  header.mutable_data_ptr<std::int64_t>()[1] = kNone;
  return header;
}

at::Tensor header_of(const at::Tensor& tensor, comm::Communicator& group) {
  if (tensor.dim() > static_cast<std::int64_t>(kMostDims))
    fail(Fault::Usage,
         fmt::format("a tensor of {} dims between stages: there are at most {}", tensor.dim(), kMostDims));
  at::Tensor header = group.empty({kHeaderWords}, at::kLong);
  auto* words = header.mutable_data_ptr<std::int64_t>();
  words[0] = static_cast<std::int64_t>(tensor.scalar_type());
  words[1] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), words + 2);
  return header;
}

/// Ranks that have samples do their work together with those that have none.
void pass_over(PipelineWork work, ChainPass pass) {
  LateGradients none;
  std::optional<LateGradients::Deferral> deferral;
  switch (work) {
    case PipelineWork::Forward: pass.pass_over_forward(); break;
    case PipelineWork::Backward: pass.pass_over_backward(); break;
    case PipelineWork::InputGradient:
      deferral.emplace(none);
      pass.pass_over_backward();
      break;
    case PipelineWork::WeightGradient: pass.finish_backward(none); break;
  }
}

const char* name_of(bool gradient) { return gradient ? "slopes of a stage" : "values of a stage"; }

}  // namespace

/// What goes to and comes from other stages in one step.
class Pipeline::Mail {
 public:
  Mail(comm::Communicator& stages, c10::Device device) : stages_(stages), device_(device) {}
  Mail(comm::Communicator& stages, c10::Device device, const PipelineSchedule& schedule, const PipelineFeed& feed)
      : Mail(stages, device) {
    for (int from = 0; from < stages.size(); ++from) {
      auto& order = expected_.emplace_back();
      if (from == stages.rank()) continue;
      for (const auto& message : messages(schedule, from, stages.rank())) {
        if (!feed.empty(message.micro_batch)) order.push_back({message.gradient, message.micro_batch, message.chunk});
      }
    }
    const int before = (stages.rank() + stages.size() - 1) % stages.size();
    most_ = {{false, peak_in_flight(schedule, stages.rank())}, {true, peak_in_flight(schedule, before)}};
  }

  /// `key` is what the receiver asks for.
  void send(const at::Tensor& tensor, int to, const Key& key) {
    if (to == stages_.rank()) {
      arrived_.emplace(key, tensor);
    } else {
      send(tensor, to, key.gradient);
    }
  }

  void send(const at::Tensor& tensor, int to, bool gradient) {
    release_arrived();
    if (most_.contains(gradient)) release_until(most_.at(gradient) - 1, gradient);
    const char* name = name_of(gradient);
    if (!tensor.defined()) {
      on_their_way_.push_back({stages_.send(header_of_none(stages_), to, {.name = name}), 0, gradient});
      return;
    }
    const at::Tensor memory = [&] {
      const AllocationMeter::Pause counted_here;
      return stages_.empty(tensor.sizes(), tensor.scalar_type());
    }();
    memory.copy_(tensor);
    comm::Work work = stages_.send(header_of(memory, stages_), to, {.name = name});
    work.add(stages_.send(memory, to, {.name = name}));
    const auto bytes = static_cast<std::int64_t>(memory.nbytes());
    on_their_way_.push_back({std::move(work), bytes, gradient});
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }

  at::Tensor receive(int from, const char* name) {
    const at::Tensor header = stages_.empty({kHeaderWords}, at::kLong);
    wait_for_ranks([&] { return stages_.recv_(header, from, {.name = name}); });
    const auto* words = header.const_data_ptr<std::int64_t>();
    if (words[1] == kNone) return {};
    const at::Tensor tensor =
        at::empty({words + 2, static_cast<std::size_t>(words[1])}, static_cast<at::ScalarType>(words[0]));
    wait_for_ranks([&] { return stages_.recv_(tensor, from, {.name = name}); });
    return tensor.to(device_);
  }

  /// Others that come first are kept until somebody asks for them.
  at::Tensor take(const Key& key, int from) {
    auto& order = expected_[static_cast<std::size_t>(from)];
    auto& next = next_[from];
    while (!arrived_.contains(key)) {
      const Key& coming = order.at(next++);
      arrived_.emplace(coming, receive(from, name_of(coming.gradient)));
    }
    return arrived_.extract(key).mapped();
  }

  /// The most bytes that were on their way at once.
  std::int64_t finish() {
    while (!on_their_way_.empty()) release(on_their_way_.begin());
    return peak_bytes_;
  }

 private:
  struct Sent {
    comm::Work work;
    std::int64_t bytes;
    bool gradient;
  };
  using OnTheirWay = std::list<Sent>;

  /// Messages that others have give their memory back.
  void release_arrived() {
    for (auto sent = on_their_way_.begin(); sent != on_their_way_.end();)
      sent = sent->work.done() ? release(sent) : std::next(sent);
  }

  /// Values whose slopes have come, and slopes of micro-batches that the stage before has not under way any more, have
  /// arrived: if more are on their way than a stage has under way, it is only that nobody has noticed yet.
  void release_until(int most, bool gradient) {
    const auto is_one = [gradient](const Sent& sent) { return sent.gradient == gradient; };
    auto count = std::count_if(on_their_way_.begin(), on_their_way_.end(), is_one);
    for (; count > most; --count) release(std::find_if(on_their_way_.begin(), on_their_way_.end(), is_one));
  }

  OnTheirWay::iterator release(OnTheirWay::iterator sent) {
    wait_for_ranks([&] { return std::move(sent->work); });
    bytes_ -= sent->bytes;
    return on_their_way_.erase(sent);
  }

  comm::Communicator& stages_;
  c10::Device device_;
  std::vector<std::vector<Key>> expected_;  // by stage, in the order in which it sends them
  std::map<int, std::size_t> next_;         // by stage, into that
  std::map<Key, at::Tensor> arrived_;
  std::map<bool, int> most_;  // that may be on their way, of values and of gradients; none: any number
  OnTheirWay on_their_way_;
  std::int64_t bytes_ = 0, peak_bytes_ = 0;
};

Pipeline::Pipeline(const Chain& chain, std::vector<std::size_t> cuts, comm::Communicator& stages,
                   ChainPass::Options options, c10::Device device)
    : chain_(chain), cuts_(std::move(cuts)), stages_(stages), options_(std::move(options)), device_(device) {}

ChainPass Pipeline::pass_of(int virtual_stage) const {
  const auto place = static_cast<std::size_t>(virtual_stage);
  return {chain_, cuts_[place], cuts_[place + 1], options_};
}

std::int64_t Pipeline::train(const PipelineSchedule& schedule, PipelineFeed& feed) {
  const int stages = stages_.size(), last = virtual_stages() - 1;
  const auto rank_of = [&](int virtual_stage) { return virtual_stage % stages; };
  const auto chunk_of = [&](int virtual_stage) { return virtual_stage / stages; };
  struct Underway {
    ChainPass pass;
    at::Tensor slopes;  // of the loss, on the last stage
    LateGradients late;
  };
  std::map<std::pair<int, int>, Underway> underway;  // by micro-batch and chunk
  Mail mail(stages_, device_, schedule, feed);
  for (const auto& [work, micro_batch, chunk] : schedule.of_stage[static_cast<std::size_t>(stages_.rank())]) {
    const int stage = virtual_stage(chunk);
    if (work != PipelineWork::Forward) feed.expect_gradients(micro_batch == schedule.micro_batches - 1);
    if (feed.empty(micro_batch)) {
      pass_over(work, pass_of(stage));
      continue;
    }
    const std::pair key(micro_batch, chunk);
    feed.begin(micro_batch);
    switch (work) {
      case PipelineWork::Forward: {
        const at::Tensor input =
            stage == 0 ? feed.input(micro_batch) : mail.take({false, micro_batch, chunk}, rank_of(stage - 1));
        const profile::Span span("forward of a stage", micro_batch + 1);
        auto& [pass, slopes, late] = underway.try_emplace(key, Underway{pass_of(stage), {}, {}}).first->second;
        const at::Tensor output = pass.forward(input);
        if (stage == last) {
          slopes = feed.slopes(micro_batch, output);
        } else {
          mail.send(output, rank_of(stage + 1), Key{false, micro_batch, chunk_of(stage + 1)});
        }
        break;
      }
      case PipelineWork::Backward:
      case PipelineWork::InputGradient: {
        auto& [pass, own_slopes, late] = underway.at(key);
        at::Tensor slopes =
            stage == last ? std::move(own_slopes) : mail.take({true, micro_batch, chunk}, rank_of(stage + 1));
        const profile::Span span("backward of a stage", micro_batch + 1);
        std::optional<LateGradients::Deferral> deferral;
        if (work == PipelineWork::InputGradient) deferral.emplace(late);
        const at::Tensor of_input = pass.backward(std::move(slopes));
        if (stage > 0) mail.send(of_input, rank_of(stage - 1), Key{true, micro_batch, chunk_of(stage - 1)});
        if (work == PipelineWork::Backward) underway.erase(key);
        break;
      }
      case PipelineWork::WeightGradient: {
        const profile::Span span("weight gradients of a stage", micro_batch + 1);
        auto& [pass, slopes, late] = underway.at(key);
        pass.finish_backward(late);
        underway.erase(key);
        break;
      }
    }
  }
  return mail.finish();
}

std::optional<at::Tensor> Pipeline::forward(const std::function<at::Tensor()>& input) {
  const at::NoGradGuard no_gradients;
  Mail mail(stages_, device_);
  at::Tensor values;
  for (int stage = 0; stage < virtual_stages(); ++stage) {
    const int own = stages_.rank(), of_stage = stage % stages_.size();
    if (own != of_stage) continue;
    if (stage == 0) values = input();
    if (stage > 0 && stages_.size() > 1) values = mail.receive((stage - 1) % stages_.size(), name_of(false));
    const auto place = static_cast<std::size_t>(stage);
    values = run(chain_, cuts_[place], cuts_[place + 1], values, options_.observer, options_.scope);
    if (stage + 1 < virtual_stages() && stages_.size() > 1)
      mail.send(values, (stage + 1) % stages_.size(), /*gradient=*/false);
  }
  (void)mail.finish();
  return last() ? std::optional(values) : std::nullopt;
}

void Pipeline::pass_over_forward() const {
  for (int stage = stages_.rank(); stage < virtual_stages(); stage += stages_.size()) {
    pass_of(stage).pass_over_forward();
  }
}

}  // namespace lockstep::parallel
