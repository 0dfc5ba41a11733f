#include "lockstep/parallel/sharded_parallel.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <optional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/log.h"
#include "lockstep/core/text.h"
#include "lockstep/parallel/allocation_meter.h"
#include "lockstep/parallel/device_copies.h"
#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/movable_run.h"
#include "lockstep/parallel/weights_agree.h"
#include "lockstep/profile/span.h"

namespace lockstep::parallel {
namespace {

using MakeRun = std::function<at::Tensor(std::int64_t elements, at::ScalarType type)>;

/// Of communicator memory; where no other rank reads it and a GPU does, of memory that is locked for it.
MakeRun memory_for(comm::Communicator& group, c10::Device device) {
  if (group.size() == 1 && !device.is_cpu()) {
    return [](std::int64_t elements, at::ScalarType type) {
      return at::empty({elements}, at::TensorOptions(type).pinned_memory(true));
    };
  }
  return [&group](std::int64_t elements, at::ScalarType type) { return group.empty({elements}, type); };
}

/// Runs of memory for whole units, used again and again.
class RunPool {
 public:
  explicit RunPool(MakeRun make) : make_(std::move(make)) {}

  at::Tensor take(std::int64_t elements, at::ScalarType type) {
    const auto fits = [&](const at::Tensor& run) { return run.numel() == elements && run.scalar_type() == type; };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found != free_.end()) {
      at::Tensor run = std::move(*found);
      free_.erase(found);
      return run;
    }
    bytes_ += elements * static_cast<std::int64_t>(c10::elementSize(type));
    // Of other sizes none is needed beside it.
    while (bytes_ > peak_ && !free_.empty()) drop_first();
    peak_ = std::max(peak_, bytes_);
    const AllocationMeter::Pause counted_here;
    return make_(elements, type);
  }

  void give_back(at::Tensor run) { free_.push_back(std::move(run)); }
  std::int64_t peak_bytes() const noexcept { return peak_; }

 private:
  void drop_first() {
    bytes_ -= static_cast<std::int64_t>(free_.front().nbytes());
    free_.pop_front();
  }

  MakeRun make_;
  std::deque<at::Tensor> free_;
  std::int64_t bytes_ = 0, peak_ = 0;
};

}  // namespace

class ShardedParallel::Engine final : public LinkObserver {
 public:
  Engine(const Parameters& parameters, const Chain& chain, comm::Communicator& group, ShardedOptions options)
      : group_(group),
        options_(std::move(options)),
        parameters_(trained(parameters)),
        units_(units_of(parameters_, chain, options_.cuts, options_.held, options_.unit_bytes, group.size(),
                        options_.partial)),
        unit_of_(parameters_.size()),
        place_of_(parameters_.size()),
        units_of_link_(chain.size()),
        overlap_(units_, options_.overlap_bytes),
        states_(units_.size()),
        make_run_(memory_for(group, options_.device)),
        pool_(make_run_),
        gradient_pool_(make_run_),
        offload_(make_offload()),
        buckets_(parameters_, units_, shards(), group.rank(), group.size()),
        arrivals_of_(parameters_.size()) {
    if (on_device()) copies_.emplace(options_.device);
    const at::NoGradGuard no_gradients;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      for (const std::size_t link : units_[unit].links) units_of_link_[link].push_back(unit);
      for (std::size_t place = 0; place < units_[unit].parameters.size(); ++place) {
        unit_of_[units_[unit].parameters[place]] = unit;
        place_of_[units_[unit].parameters[place]] = place;
      }
      begin_weights(unit);
    }
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      set_gradient_sink(parameters_[number].tensor, std::make_unique<Sink>(*this, number));
    }
    weights_changed();
  }

  ~Engine() override {
    for (const auto& parameter : parameters_) set_gradient_sink(parameter.tensor, nullptr);
    if (options_.level < 3) {
      settle_all();
      return;
    }
    for (std::size_t unit = 0; unit < units_.size(); ++unit) states_[unit].run->take_out();
    for (const auto& [name, tensor] : parameters_) {
      tensor.mutable_grad() = at::Tensor();
      tensor.set_data(at::empty({0}, tensor.options().requires_grad(false)));
    }
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void reduce_in_backward(bool last) noexcept { last_ = last; }
  bool lay_out() noexcept { return !std::exchange(laid_out_, true); }

  void finish() {
    const profile::Span span("wait for gradients");
    const at::NoGradGuard no_gradients;
    collect_all();
    refuse_leftovers();
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (states_[unit].fresh) buckets_.all()[unit].gradients.zero_();
    }
    if (!std::exchange(uses_known_, true)) learn_uses();
    if (begun() && !warned_of_skips_) warn_of_skips();
    std::fill(arrivals_of_.begin(), arrivals_of_.end(), 0);
  }

  void weights_changed() {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      give_up(unit);
      if (options_.level < 3) gather(unit);
    }
  }

  void drop_gradients() {
    collect_all();  // of a step that was not finished
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      states_[unit].fresh = true;
      forget_run(unit);
    }
  }

  bool begun() const noexcept {
    return std::any_of(arrivals_of_.begin(), arrivals_of_.end(), [](int arrivals) { return arrivals > 0; });
  }

  Parameters held() {
    collect_all();
    Parameters gradients;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      const std::string& name = parameters_[number].name;
      if (!options_.held.contains(name) && !options_.partial.contains(name)) continue;
      if (std::exchange(states_[unit_of_[number]].fresh, false)) buckets_.all()[unit_of_[number]].gradients.zero_();
      gradients.push_back({name, buckets_.gradient(number)});
    }
    return gradients;
  }

  void before_forward(std::size_t link, NextLink next) override { bring(link, next); }
  void before_backward(std::size_t link, NextLink next) override { bring(link, next); }

  void after_backward(std::size_t link, NextLink next) override {
    if (options_.level == 1 && !last_) return;  // gradients are added up on this rank
    for (const std::size_t unit : units_of_link_[link]) {
      if (next && units_[unit].used_by(*next)) continue;
      // Of two large ones there is no room for a shard beside.
      if (options_.level == 3 && !overlap_.twice(units_[unit])) give_up(unit);
      reduce(unit);
    }
    if (next && !overlap_.together(link, *next)) collect_all();
  }

  std::vector<Slice> slices() const {
    std::vector<Slice> all;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      const Place& place = buckets_.place(number);
      if (place.count > 0)
        all.push_back({number, parameters_[number].name, buckets_.weight(number), {place.of_parameter, place.count}});
    }
    return all;
  }

  void load_weights(const std::function<void(const Parameters&)>& load) {
    for (const auto& [number, name, kept, window] : slices()) {
      const at::Tensor values = kept.is_meta() ? at::empty(kept.sizes(), kept.scalar_type()) : kept;
      load({{name, values}});
      if (kept.is_meta()) offload_->write(unit_of_[number], Offload::kWeights, buckets_.place(number).first, values);
    }
  }

  at::Tensor weight(std::size_t number) {
    const Place& place = buckets_.place(number);
    if (!offloads_weights() || place.count == 0) return buckets_.weight(number);
    return offload_->read(place.bucket, Offload::kWeights, place.first, place.count);
  }

  Parameters gradients() const {
    Parameters all;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (buckets_.place(number).count > 0) all.push_back({parameters_[number].name, buckets_.gradient(number)});
    }
    return all;
  }

  void check_equal() {
    std::vector<at::Tensor> same;
    for (std::size_t unit = 0; unit < units_.size() && options_.level < 3; ++unit) {
      settle(unit);
      same.push_back(states_[unit].whole);
    }
    if (!same.empty()) check_weights_agree(same, group_);
    if (options_.replicas == nullptr) return;
    Hasher hasher;
    for (const auto& slice : slices()) {
      const at::Tensor weights = weight(slice.parameter);
      hasher.update(weights.const_data_ptr(), weights.nbytes());
    }
    check_weights_agree(hasher.hex(), *options_.replicas);
  }

  bool has_whole_weights() const noexcept { return options_.level < 3; }
  const Buckets& buckets() const noexcept { return buckets_; }
  Offload* offload() noexcept { return offload_.get(); }
  const Parameters& parameters() const noexcept { return parameters_; }
  const std::vector<std::string>& unused() const noexcept { return unused_; }

  MemoryUse memory() const {
    MemoryUse use{.buffers = pool_.peak_bytes()};
    // With level 1 they may stay over several pieces of a batch.
    (options_.level == 1 ? use.gradients : use.buffers) += gradient_pool_.peak_bytes();
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      const Bucket& shard = buckets_.all()[unit];
      if (!offloads_weights())
        use.weights += static_cast<std::int64_t>((options_.level < 3 ? states_[unit].whole : shard.weights).nbytes());
      use.gradients += static_cast<std::int64_t>(shard.gradients.nbytes());
    }
    if (offload_) {
      use.disk = offload_->bytes();
      use.disk_is_memory = lies_in_memory(options_.offload->folder);
      use.buffers += offload_->memory_bytes();
    }
    return use;
  }

 private:
  class Sink final : public GradientSink {
   public:
    Sink(Engine& engine, std::size_t parameter) : engine_(engine), parameter_(parameter) {}
    at::Tensor target() const override { return engine_.target(parameter_); }
    void ready() override { engine_.arrive(parameter_); }

   private:
    Engine& engine_;
    std::size_t parameter_;
  };

  /// What becomes of a unit in the course of a step.
  struct State {
    at::Tensor whole;                 // all its weights, on this host; with level 3 undefined
    at::Tensor used;                  // what parameters are views of: that, its copy on a device or, with level 3,
    std::unique_ptr<MovableRun> run;  // a run that has memory only when somebody needs them
    at::Tensor memory;                // of the run, or what is to be copied to it
    at::Tensor device_memory;         // of the run, on a device
    std::optional<OffloadFile::Ticket> read = {};  // this rank's shard is on its way from the file to that
    bool gathering = false, present = false;
    comm::Work gathered;
    at::Tensor gradients;  // of all of it, by this rank's backward, where it computes; undefined: there are none
    bool fresh = true;     // its shard of gradients is that of a step before
  };
  struct Reduction {
    std::size_t unit;
    at::Tensor input, output;
    comm::Work work;
  };
  /// Gradients on a device that are to come to the host.
  struct Leaving {
    std::size_t unit;
    at::Tensor gradients;
    c10::Event computed;
  };

  std::unique_ptr<Offload> make_offload() const {
    if (!options_.offload || (!options_.offload->weights && options_.offload->states == 0)) return nullptr;
    std::vector<Offload::Run> runs;
    for (const Unit& unit : units_) runs.push_back({unit.elements / group_.size(), unit.type});
    return std::make_unique<Offload>(*options_.offload, std::move(runs));
  }
  bool on_device() const noexcept { return !options_.device.is_cpu(); }
  bool offloads_weights() const noexcept { return offload_ && offload_->has_weights(); }

  /// Memory of weights and their gradients that stays.
  std::vector<Bucket> shards() {
    std::vector<Bucket> all;
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      const auto& [name, type, parameters, firsts, elements, links] = units_[unit];
      const std::int64_t length = elements / group_.size();
      State& state = states_[unit];
      Bucket& shard = all.emplace_back();
      if (options_.level < 3) {
        state.whole = make_run_(elements, type).zero_();
        state.used = on_device() ? at::empty({elements}, at::TensorOptions(type).device(options_.device)) : state.whole;
        shard.weights = state.whole.narrow(0, group_.rank() * length, length);
      } else {
        state.run = std::make_unique<MovableRun>(elements, type, options_.device);
        state.used = state.run->tensor();
        shard.weights = offloads_weights() ? at::empty({length}, at::TensorOptions(type).device(at::kMeta))
                                           : make_run_(length, type).zero_();
      }
      shard.gradients = make_run_(length, type).zero_();
    }
    return all;
  }

  at::Tensor part(const at::Tensor& whole, std::size_t number) const {
    const at::Tensor& parameter = parameters_[number].tensor;
    return whole.narrow(0, units_[unit_of_[number]].firsts[place_of_[number]], parameter.numel())
        .view(parameter.sizes());
  }

  /// Gradients that came when no link could be waited for would never be summed.
  void refuse_leftovers() const {
    for (std::size_t unit = 0; unit < units_.size(); ++unit) {
      if (!states_[unit].gradients.defined()) continue;
      for (const std::size_t number : units_[unit].parameters) {
        if (arrivals_of_[number] == 0) continue;
        fail(Fault::Usage,
             fmt::format("'{}' is used by a link of the chain that does not name it among its modules, so ranks that "
                         "share weights out do not know when its gradient is complete: name the module there, or set "
                         "parallel.zero = 0",
                         parameters_[number].name));
      }
    }
  }

  /// The shard gets its first weights, and parameters become views of the whole.
  void begin_weights(std::size_t unit) {
    const auto& layout = units_[unit];
    const auto slices = slices_of(layout, parameters_, group_.rank(), group_.size());
    const at::Tensor& kept = buckets_.all()[unit].weights;
    const at::Tensor shard = kept.is_meta() ? at::zeros(kept.sizes(), layout.type) : kept;
    std::vector<ParameterSlice> of_first_rank;
    for (const auto& slice : slices) {
      const at::Tensor values = shard.narrow(0, slice.first, slice.window.count);
      if (!options_.begin || !options_.begin(slice.parameter, slice.window, values)) of_first_rank.push_back(slice);
    }
    if (!of_first_rank.empty()) {
      // Beside slices that `begin` has made the run would lose them: the first rank has its own of those alone.
      const bool in_place = options_.level < 3 && of_first_rank.size() == slices.size();
      at::Tensor whole = in_place ? states_[unit].whole : pool_.take(layout.elements, layout.type);
      for (const auto& slice : of_first_rank) part(whole, slice.parameter).copy_(parameters_[slice.parameter].tensor);
      if (options_.replicas != nullptr) options_.replicas->broadcast_(whole, 0, {.name = "weights"}).wait();
      group_.broadcast_(whole, 0, {.name = "weights"}).wait();
      for (const auto& [number, first, window] : of_first_rank) {
        if (in_place) break;
        shard.narrow(0, first, window.count).copy_(part(whole, number).flatten().narrow(0, window.first, window.count));
      }
      if (!in_place) pool_.give_back(std::move(whole));
    }
    if (kept.is_meta()) offload_->write(unit, Offload::kWeights, 0, shard);
    for (const std::size_t number : layout.parameters) {
      const at::Tensor& parameter = parameters_[number].tensor;
      parameter.set_data(part(states_[unit].used, number));
    }
  }

  // ---- weights -------------------------------------------------------------------------------

  /// Those of `link` are there when it returns, those of `next` on their way unless they are too large. Whose samples
  /// are is of no concern: the same on all ranks.
  void bring(std::size_t link, NextLink next) {
    for (std::size_t unit = 0; unit < units_.size() && options_.level == 3; ++unit) {
      if (!units_[unit].used_by(link) && !(next && units_[unit].used_by(*next))) give_up(unit);
    }
    for (const std::size_t unit : units_of_link_[link]) gather(unit);
    if (next && overlap_.together(link, *next)) {
      // From a file only this rank's shard comes while the link computes: to wait for it here would take longer than
      // to gather it later.
      for (const std::size_t unit : units_of_link_[*next]) offloads_weights() ? read(unit) : gather(unit);
    }
    for (const std::size_t unit : units_of_link_[link]) settle(unit);
  }

  /// Its run gets memory.
  void make_room(std::size_t unit) {
    State& state = states_[unit];
    if (!state.run) return;
    state.memory = pool_.take(units_[unit].elements, units_[unit].type);
    if (!on_device()) state.run->put_in(state.memory);
  }

  /// This rank's shard, from the file to its place in the whole.
  void read(std::size_t unit) {
    State& state = states_[unit];
    if (state.read || state.gathering || state.present) return;
    make_room(unit);
    state.read = offload_->begin_read(unit, Offload::kWeights, own_part(unit));
  }

  at::Tensor own_part(std::size_t unit) const {
    const std::int64_t length = units_[unit].elements / group_.size();
    return states_[unit].memory.narrow(0, group_.rank() * length, length);
  }

  void gather(std::size_t unit) {
    State& state = states_[unit];
    if (state.gathering || state.present) return;
    at::Tensor shard = buckets_.all()[unit].weights;
    const bool is_whole = on_device() && group_.size() == 1 && !offloads_weights();
    if (offloads_weights()) {
      read(unit);
      offload_->wait(*std::exchange(state.read, std::nullopt));
      shard = own_part(unit);
    } else if (!is_whole) {
      make_room(unit);
    }
    state.gathering = true;
    if (is_whole) return;
    state.gathered = group_.all_gather(state.run ? state.memory : state.whole, shard, {},
                                       {.name = units_[unit].name.c_str(), .lane = comm::Lane::Bulk});
  }

  void settle(std::size_t unit) {
    State& state = states_[unit];
    if (!state.gathering) return;
    const profile::Span span("wait for weights");
    state.gathered.wait();
    if (on_device()) copy_to_device(unit);
    state.gathering = false;
    state.present = true;
  }

  /// Whoever reads weights after the engine finds all of them. While an exception unwinds nobody waits for other ranks,
  /// which may never come.
  void settle_all() noexcept {
    if (std::uncaught_exceptions() > 0) return;
    try {
      for (std::size_t unit = 0; unit < units_.size(); ++unit) settle(unit);
    } catch (const std::exception& error) {
      log().warn("weights of other ranks did not come: {}", error.what());
    }
  }

  void copy_to_device(std::size_t unit) {
    State& state = states_[unit];
    if (!state.run) {
      state.used.copy_(state.whole);
      return;
    }
    state.device_memory = copies_->to_device(state.memory.defined() ? state.memory : buckets_.all()[unit].weights);
    state.run->put_in(state.device_memory);
    if (state.memory.defined()) pool_.give_back(std::exchange(state.memory, at::Tensor()));
  }

  void give_up(std::size_t unit) {
    settle(unit);
    State& state = states_[unit];
    if (state.read) {  // nobody came for it
      offload_->wait(*std::exchange(state.read, std::nullopt));
      state.present = true;
    }
    if (!std::exchange(state.present, false) || !state.run) return;
    state.run->take_out();
    if (state.device_memory.defined()) copies_->release(std::exchange(state.device_memory, at::Tensor()));
    if (state.memory.defined()) pool_.give_back(std::exchange(state.memory, at::Tensor()));
  }

  // ---- gradients -------------------------------------------------------------------------------

  at::Tensor target(std::size_t number) {
    at::Tensor& run = states_[unit_of_[number]].gradients;
    const auto& layout = units_[unit_of_[number]];
    if (!run.defined()) run = make_gradients(layout);
    return part(run, number);
  }

  /// For backward to write.
  at::Tensor make_gradients(const Unit& unit) {
    if (!on_device()) return gradient_pool_.take(unit.elements, unit.type);
    return at::empty({unit.elements}, at::TensorOptions(unit.type).device(options_.device));
  }

  /// On the thread of backward.
  void arrive(std::size_t number) {
    const at::NoGradGuard no_gradients;
    move_gradient(parameters_[number].tensor, target(number));
    ++arrivals_of_[number];
  }

  /// Sends off what backward has brought of a unit since it was last sent.
  void reduce(std::size_t unit) {
    const at::NoGradGuard no_gradients;
    const auto& layout = units_[unit];
    State& state = states_[unit];
    if (!state.gradients.defined()) state.gradients = make_gradients(layout);
    // What nobody wrote counts as zeros, also where no parameter lies.
    std::int64_t at = 0;
    for (std::size_t place = 0; place < layout.parameters.size(); ++place) {
      const at::Tensor& parameter = parameters_[layout.parameters[place]].tensor;
      const bool brought = parameter.grad().defined();
      const std::int64_t first = layout.firsts[place], begin = brought ? first + parameter.numel() : first;
      state.gradients.narrow(0, at, first - at).zero_();
      at = begin;
      parameter.mutable_grad() = at::Tensor();
    }
    state.gradients.narrow(0, at, layout.elements - at).zero_();
    at::Tensor gradients = std::exchange(state.gradients, at::Tensor());
    if (!on_device()) {
      send_off(unit, std::move(gradients));
      return;
    }
    // Those of the unit before: meanwhile the device has more to do.
    fetch_leaving();
    leaving_.emplace(Leaving{unit, std::move(gradients), copies_->asked()});
  }

  void fetch_leaving() {
    if (!leaving_) return;
    const auto [unit, on_device, computed] = *std::exchange(leaving_, std::nullopt);
    at::Tensor gradients = gradient_pool_.take(units_[unit].elements, units_[unit].type);
    copies_->to_host(gradients, on_device, computed);
    send_off(unit, std::move(gradients));
  }

  void send_off(std::size_t unit, at::Tensor gradients) {
    const auto& layout = units_[unit];
    const at::Tensor& shard = buckets_.all()[unit].gradients;
    at::Tensor output = std::exchange(states_[unit].fresh, false) ? shard : pool_.take(shard.numel(), layout.type);
    auto work = group_.reduce_scatter(output, gradients, comm::ReduceOp::Sum,
                                      {.name = layout.name.c_str(), .lane = comm::Lane::Bulk});
    reductions_.push_back({unit, std::move(gradients), std::move(output), std::move(work)});
    constexpr std::size_t kOnTheirWay = 1;  // while the next are computed; more would take more memory
    while (reductions_.size() > kOnTheirWay) collect();
  }

  void collect() {
    auto [unit, input, output, work] = std::move(reductions_.front());
    reductions_.pop_front();
    work.wait();
    gradient_pool_.give_back(std::move(input));
    if (options_.replicas != nullptr)
      options_.replicas->all_reduce_(output, comm::ReduceOp::Sum, {.name = units_[unit].name.c_str()}).wait();
    const at::Tensor& shard = buckets_.all()[unit].gradients;
    if (output.is_alias_of(shard)) return;
    const at::NoGradGuard no_gradients;
    at::Tensor(shard).add_(output);
    pool_.give_back(std::move(output));
  }

  void collect_all() {
    fetch_leaving();
    while (!reductions_.empty()) collect();
  }

  void forget_run(std::size_t unit) {
    for (const std::size_t number : units_[unit].parameters) parameters_[number].tensor.mutable_grad() = at::Tensor();
    at::Tensor run = std::exchange(states_[unit].gradients, at::Tensor());
    if (run.defined() && !on_device()) gradient_pool_.give_back(std::move(run));
  }

  /// A rank that had no samples has seen no arrivals.
  void learn_uses() {
    const at::Tensor most = at::tensor(arrivals_of_, at::kInt);
    for (comm::Communicator* ranks : {&group_, options_.replicas}) {
      if (ranks != nullptr) ranks->all_reduce_(most, comm::ReduceOp::Max, {.name = "arrivals"}).wait();
    }
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (most.const_data_ptr<int>()[number] == 0) unused_.push_back(parameters_[number].name);
    }
  }

  /// What other ranks use and this one, which has samples, did not.
  void warn_of_skips() {
    std::vector<std::string> skipped;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      const std::string& name = parameters_[number].name;
      const bool used = std::find(unused_.begin(), unused_.end(), name) == unused_.end();
      if (used && arrivals_of_[number] == 0) skipped.push_back(name);
    }
    if (skipped.empty()) return;
    warned_of_skips_ = true;
    constexpr std::size_t kMostNames = 5;
    log().warn(
        "on rank {} no gradient came for {}: its samples did not go through layers that other ranks' go "
        "through; zeros are summed for it; said once",
        group_.world_rank(group_.rank()), list_some(skipped, kMostNames));
  }

  comm::Communicator& group_;
  ShardedOptions options_;
  Parameters parameters_;
  std::vector<Unit> units_;
  std::vector<std::size_t> unit_of_, place_of_;          // by parameter
  std::vector<std::vector<std::size_t>> units_of_link_;  // by link
  Overlap overlap_;
  std::vector<State> states_;  // by unit
  MakeRun make_run_;
  std::optional<DeviceCopies> copies_;
  RunPool pool_;                      // of weights, and of shards of gradients that are added to others
  RunPool gradient_pool_;             // of backward
  std::unique_ptr<Offload> offload_;  // behind what it reads into; none: all is in memory
  Buckets buckets_;
  std::optional<Leaving> leaving_;
  std::deque<Reduction> reductions_;  // under way, in their order
  std::vector<int> arrivals_of_;      // by parameter, in this step
  std::vector<std::string> unused_;
  bool last_ = true;
  bool laid_out_ = false;
  bool uses_known_ = false;
  bool warned_of_skips_ = false;
};

ShardedParallel::ShardedParallel(const Parameters& parameters, const Chain& chain, comm::Communicator& group,
                                 ShardedOptions options)
    : engine_(std::make_unique<Engine>(parameters, chain, group, std::move(options))) {}
ShardedParallel::~ShardedParallel() = default;
std::vector<ShardedParallel::Slice> ShardedParallel::slices() const { return engine_->slices(); }
void ShardedParallel::load_weights(const std::function<void(const Parameters&)>& load) { engine_->load_weights(load); }
MemoryUse ShardedParallel::memory() const { return engine_->memory(); }
LinkObserver* ShardedParallel::observer() noexcept { return engine_.get(); }
void ShardedParallel::reduce_in_backward(bool last) noexcept { engine_->reduce_in_backward(last); }
bool ShardedParallel::lay_out() { return engine_->lay_out(); }
void ShardedParallel::finish() { engine_->finish(); }
void ShardedParallel::weights_changed() { engine_->weights_changed(); }
void ShardedParallel::drop_gradients() { engine_->drop_gradients(); }
bool ShardedParallel::begun() const noexcept { return engine_->begun(); }
Parameters ShardedParallel::held() { return engine_->held(); }
const Buckets& ShardedParallel::buckets() const noexcept { return engine_->buckets(); }
Offload* ShardedParallel::offload() noexcept { return engine_->offload(); }
at::Tensor ShardedParallel::weight(std::size_t parameter) const { return engine_->weight(parameter); }
const Parameters& ShardedParallel::parameters() const noexcept { return engine_->parameters(); }
Parameters ShardedParallel::gradients() const { return engine_->gradients(); }
std::vector<std::string> ShardedParallel::unused() const { return engine_->unused(); }
bool ShardedParallel::has_whole_weights() const noexcept { return engine_->has_whole_weights(); }
void ShardedParallel::check_equal() const { engine_->check_equal(); }

}  // namespace lockstep::parallel
