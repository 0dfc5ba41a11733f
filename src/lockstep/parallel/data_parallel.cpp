#include "lockstep/parallel/data_parallel.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/core/error.h"
#include "lockstep/parallel/gradient_sink.h"
#include "lockstep/parallel/sparse_rows.h"
#include "lockstep/parallel/tree_sum.h"
#include "lockstep/parallel/weights_agree.h"
#include "lockstep/profile/span.h"

namespace lockstep::parallel {
namespace {

/// Backward reaches the last layers first.
std::vector<std::size_t> backwards(std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

/// When backward throws, collectives that it has started may still come to their updates, after the engine is gone.
class SharedUpdate {
 public:
  void replace(BucketUpdate update) {
    const std::lock_guard lock(mutex_);
    update_ = std::move(update);
  }
  bool given() const {
    const std::lock_guard lock(mutex_);
    return update_ != nullptr;
  }
  void call(std::size_t bucket, std::int64_t first, std::int64_t count, const void* sums) const {
    const std::lock_guard lock(mutex_);
    if (update_) update_(bucket, first, count, sums);
  }

 private:
  mutable std::mutex mutex_;
  BucketUpdate update_;
};

}  // namespace

class DataParallel::Engine {
 public:
  Engine(const Parameters& parameters, comm::Communicator& group, DataParallelOptions options)
      : group_(group),
        options_(std::move(options)),
        parameters_(trained(parameters)),
        buckets_(parameters_, backwards(parameters_.size()), options_.buckets, group, options_.sparse),
        arrivals_of_(parameters_.size()),
        expected_(parameters_.size(), 1) {
    if (options_.wire && options_.op != comm::ReduceOp::Sum) {
      fail(Fault::Usage, fmt::format("a wire sums gradients, and does not know '{}'", comm::name_of(options_.op)));
    }
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      const auto& [name, tensor] = parameters_[number];
      if (!buckets_.sparse(number)) continue;
      if (!tensor.is_cpu()) fail(Fault::Usage, fmt::format("'{}' has sparse gradients, which only CPUs sum", name));
      if (tensor.dim() == 2) continue;
      fail(Fault::Usage,
           fmt::format("'{}' cannot have sparse gradients: it has {} dims, not rows", name, tensor.dim()));
    }
    check_same_model();
    const at::NoGradGuard no_gradients;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      set_gradient_sink(parameters_[number].tensor, std::make_unique<Sink>(*this, number));
    }
    move_into(buckets_);
    for (const auto& bucket : buckets_.all()) group_.broadcast_(bucket.weights, 0, {.name = "weights"}).wait();
    buckets_.weights_to_device();
    start_step();
  }
  ~Engine() {
    update_with({});
    for (const auto& parameter : parameters_) set_gradient_sink(parameter.tensor, nullptr);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void reduce_in_backward(bool last) noexcept { last_ = last; }

  void begin_shard(int number, int count) {
    refuse_sparse();
    if (number > 0) end_shard();
    drop_gradients();
    shard_ = static_cast<std::uint32_t>(number);
    last_shard_ = number + 1 == count;
  }

  void finish() {
    const profile::Span span("wait for gradients");
    const at::NoGradGuard no_gradients;
    lay_out();
    complete_gradients();
    if (options_.local) {
      for (std::size_t bucket = 0; bucket < buckets_.all().size(); ++bucket) buckets_.gradients_to_host(bucket);
    } else {
      while (started_ < buckets_.all().size()) start_next();
    }
    for (auto& work : works_) work.wait();
    works_.clear();
    if (wired()) options_.wire->finish(group_);
    if (update_->given()) {
      buckets_.weights_to_device();
    } else {
      for (std::size_t bucket = 0; bucket < buckets_.all().size(); ++bucket) buckets_.gradients_to_device(bucket);
    }
    sum_sparse();
    start_step();
  }

  bool lay_out() {
    if (laid_out_) return false;
    const at::NoGradGuard no_gradients;
    complete_gradients();
    for (std::size_t number = 0; number < sums_.size(); ++number) {
      buckets_.gradients_to_host(number);
      at::Tensor gradients = buckets_.all()[number].gradients;
      sums_[number].fold_(gradients, shard_);
      buckets_.gradients_to_device(number);
    }
    sums_.clear();
    rebuild();
    learn_uses();
    laid_out_ = true;
    return true;
  }

  Parameters held() {
    const at::NoGradGuard no_gradients;
    Parameters gradients;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (!is_held(number)) continue;
      at::Tensor& gradient = parameters_[number].tensor.mutable_grad();
      if (!gradient.defined()) gradient = buckets_.gradient(number).zero_();
      gradients.push_back({parameters_[number].name, gradient});
    }
    return gradients;
  }

  void release() {
    const at::NoGradGuard no_gradients;
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (is_held(number)) count(number);
    }
  }

  bool begun() const noexcept { return !arrivals_.empty(); }
  void update_with(BucketUpdate update) { update_->replace(std::move(update)); }
  void forget() {
    if (options_.wire) options_.wire->forget();
  }

  void drop_gradients() {
    for (const auto& parameter : parameters_) parameter.tensor.mutable_grad() = at::Tensor();
  }

  void average_weights(double share) {
    const profile::Span span("average weights");
    const at::NoGradGuard no_gradients;
    std::vector<comm::Work> works;
    for (const auto& bucket : buckets_.all()) {
      bucket.weights.mul_(share);
      works.push_back(group_.all_reduce_(bucket.weights, comm::ReduceOp::Sum, {.name = "weights"}));
    }
    for (auto& work : works) work.wait();
    buckets_.weights_to_device();
  }

  void check_equal() const {
    std::vector<at::Tensor> weights;
    for (const auto& bucket : buckets_.all()) weights.push_back(bucket.weights);
    check_weights_agree(weights, group_);
  }

  const Buckets& buckets() const noexcept { return buckets_; }
  const Parameters& parameters() const noexcept { return parameters_; }
  const std::vector<std::string>& unused() const noexcept { return unused_; }

 private:
  class Sink final : public GradientSink {
   public:
    Sink(Engine& engine, std::size_t parameter) : engine_(engine), parameter_(parameter) {}
    at::Tensor target() const override { return engine_.buckets_.gradient(parameter_); }
    void ready() override { engine_.arrive(parameter_); }

   private:
    Engine& engine_;
    std::size_t parameter_;
  };

  /// Before any rank waits for weights that another does not have.
  void check_same_model() const {
    std::string mine;
    for (const auto& [name, tensor] : parameters_) {
      mine += fmt::format("{} [{}] {}{}\n", name, fmt::join(tensor.sizes(), ", "), comm::name_of(tensor.scalar_type()),
                          options_.sparse.contains(name) ? " sparse" : "");
    }
    const std::string theirs = group_.broadcast_bytes(mine, 0);
    if (mine == theirs) return;
    const auto at = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end());
    const auto line = [](const std::string& text, std::string::const_iterator place) {
      const auto begin = std::find(std::make_reverse_iterator(place), text.rend(), '\n').base();
      return begin == text.end() ? std::string("nothing") : std::string(begin, std::find(place, text.end(), '\n'));
    };
    fail(Fault::Usage,
         fmt::format("the model of rank {} is not that of rank {}: {} here, {} there", group_.world_rank(group_.rank()),
                     group_.world_rank(0), line(mine, at.first), line(theirs, at.second)));
  }

  /// A parameter that backward did not reach counts as zeros.
  void complete_gradients() {
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (buckets_.sparse(number)) continue;
      at::Tensor& gradient = parameters_[number].tensor.mutable_grad();
      if (!gradient.defined()) gradient = buckets_.gradient(number).zero_();
    }
  }

  void end_shard() {
    const at::NoGradGuard no_gradients;
    complete_gradients();
    if (sums_.empty()) sums_.resize(buckets_.all().size());
    for (std::size_t number = 0; number < sums_.size(); ++number) {
      buckets_.gradients_to_host(number);
      at::Tensor gradients = buckets_.all()[number].gradients;
      sums_[number].fold_(gradients, shard_);
      sums_[number].keep(gradients, shard_);
    }
  }

  /// Exact sums go over shards, of which the rows of a rank know nothing.
  void refuse_sparse() const {
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (!buckets_.sparse(number)) continue;
      fail(Fault::Usage,
           fmt::format("'{}' has sparse gradients, which exact mode does not sum: set exact = false, or make "
                       "the embedding a dense one (model.sparse_embedding = false)",
                       parameters_[number].name));
    }
  }

  /// Which rows there are, and how many, each rank knows only of itself.
  void sum_sparse() {
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      if (!buckets_.sparse(number)) continue;
      at::Tensor& gradient = parameters_[number].tensor.mutable_grad();
      SparseRows sum = rows_of(gradient, parameters_[number].tensor);
      if (!options_.local) sum = sum_over_ranks(sum, group_);
      if (options_.op == comm::ReduceOp::Avg) sum.values.div_(group_.size());
      buckets_.set_rows(number, sum.rows, sum.values);
      gradient = at::sparse_coo_tensor(sum.rows.unsqueeze(0), sum.values, parameters_[number].tensor.sizes(), {}, true);
    }
  }

  /// On the thread of backward.
  void take(std::size_t number) const {
    const auto& [name, parameter] = parameters_[number];
    at::Tensor& gradient = parameter.mutable_grad();
    if (buckets_.sparse(number)) {
      if (gradient.is_sparse()) return;
      fail(Fault::Usage, fmt::format("'{}' is the weight of a sparse embedding, but another layer has a part in its "
                                     "gradient, which is dense: make the embedding a dense one",
                                     name));
    }
    move_gradient(parameter, buckets_.gradient(number));
  }

  /// On the thread of backward.
  void arrive(std::size_t number) {
    const at::NoGradGuard no_gradients;
    take(number);
    if (last_ && last_shard_ && !is_held(number)) count(number);
  }

  void count(std::size_t number) {
    // Backward on a GPU has threads of its own.
    const std::lock_guard lock(mutex_);
    // A layer that is used several times may bring its gradient in as many parts.
    const int arrivals = ++arrivals_of_[number];
    if (arrivals == 1) arrivals_.push_back(number);
    if (!laid_out_ || options_.local) return;
    const std::size_t bucket = buckets_.place(number).bucket;
    if (bucket < started_) {
      fail(Fault::Usage,
           fmt::format("'{}' is used more often in this step than in the first, {} times: its gradient is "
                       "on its way already; use it equally often in every step",
                       parameters_[number].name, expected_[number]));
    }
    if (arrivals == expected_[number]) --missing_[bucket];
    while (started_ < missing_.size() && missing_[started_] == 0) start_next();
  }

  /// In the order of buckets, whatever is ready first: all ranks must do the same.
  void start_next() {
    const Bucket& bucket = buckets_.all()[started_];
    if (bucket.rows.defined()) {
      ++started_;
      return;
    }
    buckets_.gradients_to_host(started_);
    at::Tensor gradients = bucket.gradients;
    if (!sums_.empty()) sums_[started_].fold_(gradients, shard_);
    if (wired()) {
      options_.wire->start(group_, started_, gradients);
    } else if (update_->given()) {
      const auto update = [shared = update_, number = started_](std::int64_t first, std::int64_t count,
                                                                const void* sums) {
        shared->call(number, first, count, sums);
      };
      works_.push_back(group_.reduce_update_(bucket.weights, gradients, options_.op, update, kOnItsWay));
    } else {
      works_.push_back(group_.all_reduce_(gradients, options_.op, kOnItsWay));
    }
    ++started_;
  }

  /// Somebody else completes its gradient.
  bool is_held(std::size_t number) const { return options_.held.contains(parameters_[number].name); }

  /// A rank alone sends nothing, so nothing is lost.
  bool wired() const noexcept { return options_.wire && group_.size() > 1; }

  void start_step() {
    started_ = 0;
    std::fill(arrivals_of_.begin(), arrivals_of_.end(), 0);
    arrivals_.clear();
    missing_.clear();
    for (const auto& bucket : buckets_.all()) missing_.push_back(bucket.parameters.size());
  }

  /// Parameters become views of `buckets` and keep their values; so do gradients that there are.
  void move_into(const Buckets& buckets) {
    for (std::size_t number = 0; number < parameters_.size(); ++number) {
      const at::Tensor& parameter = parameters_[number].tensor;
      at::Tensor weight = buckets.weight(number);
      weight.copy_(parameter);
      parameter.set_data(weight);
      if (!parameter.grad().defined() || buckets.sparse(number)) continue;
      at::Tensor gradient = buckets.gradient(number);
      gradient.copy_(parameter.grad());
      parameter.mutable_grad() = gradient;
    }
    buckets.weights_to_host();
  }

  void rebuild() {
    std::vector<std::size_t> order = arrivals_;
    for (const std::size_t number : backwards(parameters_.size())) {
      if (arrivals_of_[number] == 0) order.push_back(number);
    }
    const std::string bytes(reinterpret_cast<const char*>(order.data()), order.size() * sizeof(order[0]));
    const std::string agreed = group_.broadcast_bytes(bytes, 0);
    std::copy(agreed.begin(), agreed.end(), reinterpret_cast<char*>(order.data()));
    Buckets again(parameters_, order, options_.buckets, group_, options_.sparse);
    move_into(again);
    buckets_ = std::move(again);
  }

  /// A rank that had no samples has seen no arrivals.
  void learn_uses() {
    at::Tensor most = at::tensor(arrivals_of_, at::kInt);
    group_.all_reduce_(most, comm::ReduceOp::Max, {.name = "arrivals"}).wait();
    for (std::size_t number = 0; number < expected_.size(); ++number) {
      const int arrivals = most.const_data_ptr<int>()[number];
      expected_[number] = std::max(arrivals, 1);
      if (arrivals == 0) unused_.push_back(parameters_[number].name);
    }
  }

  comm::Communicator& group_;
  DataParallelOptions options_;
  Parameters parameters_;
  Buckets buckets_;
  bool last_ = true;
  bool laid_out_ = false;
  std::shared_ptr<SharedUpdate> update_ = std::make_shared<SharedUpdate>();
  std::uint32_t shard_ = 0;
  bool last_shard_ = true;
  std::vector<TreeSum> sums_;          // by bucket, of the shards before this one
  std::mutex mutex_;                   // of what follows
  std::vector<int> arrivals_of_;       // by parameter
  std::vector<int> expected_;          // by parameter: arrivals in a step
  std::vector<std::size_t> arrivals_;  // in their order
  std::vector<std::size_t> missing_;   // by bucket: gradients to come
  std::size_t started_ = 0;            // buckets under way
  std::vector<comm::Work> works_;
  std::vector<std::string> unused_;
};

DataParallel::DataParallel(const Parameters& parameters, comm::Communicator& group, DataParallelOptions options)
    : engine_(std::make_unique<Engine>(parameters, group, std::move(options))) {}
DataParallel::~DataParallel() = default;
void DataParallel::reduce_in_backward(bool last) noexcept { engine_->reduce_in_backward(last); }
void DataParallel::begin_shard(int number, int count) { engine_->begin_shard(number, count); }
bool DataParallel::lay_out() { return engine_->lay_out(); }
void DataParallel::update_with(BucketUpdate update) { engine_->update_with(std::move(update)); }
void DataParallel::finish() { engine_->finish(); }
Parameters DataParallel::held() { return engine_->held(); }
void DataParallel::release() { engine_->release(); }
bool DataParallel::begun() const noexcept { return engine_->begun(); }
void DataParallel::forget() { engine_->forget(); }
void DataParallel::drop_gradients() { engine_->drop_gradients(); }
void DataParallel::average_weights(double share) { engine_->average_weights(share); }
const Buckets& DataParallel::buckets() const noexcept { return engine_->buckets(); }
const Parameters& DataParallel::parameters() const noexcept { return engine_->parameters(); }
Parameters DataParallel::gradients() const {
  Parameters all;
  for (const auto& [name, tensor] : engine_->parameters()) all.push_back({name, tensor.grad()});
  return all;
}
MemoryUse DataParallel::memory() const {
  MemoryUse use;
  for (const auto& bucket : engine_->buckets().all()) {
    use.weights += static_cast<std::int64_t>(bucket.weights.nbytes());
    use.gradients += static_cast<std::int64_t>(bucket.gradients.nbytes());
  }
  return use;
}
std::vector<std::string> DataParallel::unused() const { return engine_->unused(); }
void DataParallel::check_equal() const { engine_->check_equal(); }

}  // namespace lockstep::parallel
