#include "lockstep/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/comm/backend.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/gather_values.h"
#include "lockstep/comm/reduce.h"
#include "lockstep/comm/shared_tensor.h"
#include "lockstep/comm/tensor_values.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {
namespace {

constexpr int kMostRanks = std::numeric_limits<std::int16_t>::max();  // Descriptor::root names each
constexpr std::size_t kCollectives = static_cast<std::size_t>(Collective::Recv) + 1;

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<std::byte*>(tensor.data_ptr()) : nullptr;
}

/// Whether `tensors` lie one behind the other in one storage, as views of a bucket do.
bool adjacent(const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].is_contiguous() || !tensors[i].is_alias_of(tensors[0])) return false;
    if (i > 0 && bytes_of(tensors[i]) != bytes_of(tensors[i - 1]) + tensors[i - 1].nbytes()) return false;
  }
  return true;
}

}  // namespace

// ---- construction --------------------------------------------------------------------------

Communicator::Communicator(std::shared_ptr<Endpoint> endpoint, std::unique_ptr<Backend> backend)
    : endpoint_(std::move(endpoint)),
      backend_(std::move(backend)),
      rank_(backend_->rank()),
      size_(backend_->size()),
      sends_(static_cast<std::size_t>(size_)),
      receives_(static_cast<std::size_t>(size_)),
      statistics_(kCollectives) {
  if (size_ > kMostRanks) fail(Fault::Usage, fmt::format("{} ranks; at most {} are possible", size_, kMostRanks));
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes_.push_back(std::make_shared<OperationQueue>());
    endpoint_->enlist(*lanes_.back());
  }
}

Communicator::~Communicator() {
  const bool unwinding = std::uncaught_exceptions() > 0;
  for (const auto* queues : {&lanes_, &sends_, &receives_}) {
    for (const auto& queue : *queues) {
      if (queue) endpoint_->retire(*queue, unwinding);
    }
  }
}

const char* Communicator::backend() const noexcept { return backend_->name(); }
int Communicator::world_rank(int rank) const noexcept { return backend_->world_rank(rank); }

at::Tensor Communicator::empty(at::IntArrayRef sizes, at::ScalarType type) {
  // Alone there is nobody to share it with, and private memory may have huge pages.
  if (endpoint_->segment().threads() || endpoint_->segment().ranks() == 1) {
    return at::empty(sizes, at::TensorOptions(type));
  }
  return empty_in_arena(endpoint_->arena(), sizes, type);
}

// ---- checks ----------------------------------------------------------------------------------

void Communicator::check(const at::Tensor& tensor, const char* what) const {
  if (!tensor.defined()) fail(Fault::Usage, fmt::format("{} is an undefined tensor", what));
  if (!tensor.device().is_cpu()) {
    fail(Fault::Usage, fmt::format("{} is on {}; the {} back-end works on CPU tensors: move it with .cpu() first", what,
                                   tensor.device().str(), backend()));
  }
  if (tensor.layout() != at::kStrided) {
    fail(Fault::Usage, fmt::format("{} is a sparse tensor; make it dense with .to_dense() first", what));
  }
  // Its scale would stay behind.
  if (tensor.is_quantized()) {
    fail(Fault::Usage, fmt::format("{} is a quantised tensor; send .int_repr(), its scale and zero point", what));
  }
}

void Communicator::check_peer(int peer, const char* what) const {
  if (peer < 0 || peer >= size_) {
    fail(Fault::Usage, fmt::format("{} {} is not a rank of this group of {}", what, peer, size_));
  }
}

void Communicator::check_same_type(const at::Tensor& output, const at::Tensor& input) const {
  if (output.scalar_type() != input.scalar_type()) {
    fail(Fault::Usage, fmt::format("the output is {} but the input is {}", name_of(output.scalar_type()),
                                   name_of(input.scalar_type())));
  }
}

void Communicator::check_own_count(const std::vector<std::int64_t>& counts, const at::Tensor& tensor,
                                   const char* what) const {
  if (counts[static_cast<std::size_t>(rank_)] != tensor.numel()) {
    fail(Fault::Usage, fmt::format("rank {} has {} elements in {}, its count says {}", rank_, tensor.numel(), what,
                                   counts[static_cast<std::size_t>(rank_)]));
  }
}

std::vector<std::int64_t> Communicator::block_counts(std::vector<std::int64_t> counts, std::int64_t elements,
                                                     const char* what) const {
  if (counts.empty()) {
    if (elements % size_ != 0) {
      fail(Fault::Usage,
           fmt::format("{} elements of {} cannot be cut into {} equal parts; pass counts", elements, what, size_));
    }
    counts.assign(static_cast<std::size_t>(size_), elements / size_);
  }
  if (static_cast<int>(counts.size()) != size_) {
    fail(Fault::Usage, fmt::format("{} counts for {} ranks", counts.size(), size_));
  }
  if (std::any_of(counts.begin(), counts.end(), [](std::int64_t count) { return count < 0; })) {
    fail(Fault::Usage, "a count is negative");
  }
  if (sum(counts) != elements) {
    fail(Fault::Usage, fmt::format("the counts add up to {} but {} has {} elements", sum(counts), what, elements));
  }
  return counts;
}

// ---- issuing -----------------------------------------------------------------------------------

// A tensor as the back-ends take it. A strided one is copied, and copied back if the
// collective writes it. A reference where possible: counting owners costs as much as
// a small collective's wait.
class Communicator::Contiguous {
 public:
  enum class Use { Read, Write };

  Contiguous(const at::Tensor& tensor, Use use)
      : original_(tensor),
        copy_(!tensor.defined() || tensor.is_contiguous() ? at::Tensor() : contiguous_values(tensor)),
        use_(use) {}

  std::byte* bytes() const { return bytes_of(tensor()); }
  const at::Tensor& tensor() const { return copy_.defined() ? copy_ : original_; }
  const at::Tensor& original() const { return original_; }
  bool copies_back() const { return copy_.defined() && use_ == Use::Write; }

 private:
  const at::Tensor& original_;
  at::Tensor copy_;
  Use use_;
};

Request Communicator::prepare(Collective collective, const at::Tensor& tensor, std::int64_t count,
                              const CallOptions& options) const {
  Request request;
  request.descriptor.collective = collective;
  request.descriptor.type = tensor.scalar_type();
  request.descriptor.count = count;
  request.descriptor.set_name(options.name);
  request.element_bytes = tensor.element_size();
  const std::size_t bytes = static_cast<std::size_t>(count) * request.element_bytes;
  request.lane = options.lane.value_or(bytes <= endpoint_->tuning().inline_bytes ? Lane::Urgent : Lane::Bulk);
  return request;
}

bool Communicator::idle(Lane lane) const noexcept {
  return lanes_[static_cast<std::size_t>(lane)]->length.load(std::memory_order_acquire) == 0;
}

Work Communicator::issue(Request&& request, std::initializer_list<const Contiguous*> tensors) {
  if (endpoint_->segment().aborted()) endpoint_->segment().throw_abort();
  Descriptor& descriptor = request.descriptor;
  descriptor.lane = request.lane;
  const bool pairwise = descriptor.pairwise();
  // A hand-over to another thread costs more than a small collective.
  const bool here = !pairwise && request.lane == Lane::Urgent && idle(Lane::Urgent);
  if (!pairwise) descriptor.sequence = issued_++;
  const bool begun = here && backend_->begin_at_once(request);

  if (!pairwise) backend_->issued(descriptor);
  const std::int64_t elements =
      descriptor.collective == Collective::AllToAll ? sum(request.send_counts) : descriptor.count;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(request.element_bytes);
  auto& statistics = statistics_[static_cast<std::size_t>(descriptor.collective)];
  ++statistics.calls;
  statistics.bytes += bytes;
  if (here) {
    ++statistics.on_caller;
    const profile::Span span(name_of(descriptor.collective), bytes);
    try {
      if (!begun || !backend_->finish_at_once(request, endpoint_->spins())) {
        Operation operation(std::move(request), *backend_);
        endpoint_->run(operation);
      }
    } catch (...) {
      for (const Contiguous* tensor : tensors) endpoint_->outlive(tensor->tensor());
      throw;
    }
    for (const Contiguous* tensor : tensors) {
      if (tensor->copies_back()) copy_values(tensor->original(), tensor->tensor());
    }
    return {};
  }

  auto* queue = &lanes_[static_cast<std::size_t>(request.lane)];
  if (pairwise) {
    queue =
        &(descriptor.collective == Collective::Send ? sends_ : receives_)[static_cast<std::size_t>(descriptor.root)];
    if (!*queue) {
      *queue = std::make_shared<OperationQueue>();
      endpoint_->enlist(**queue);
    }
  }
  auto operation = std::make_shared<Operation>(std::move(request), *backend_);
  for (const Contiguous* tensor : tensors) {
    operation->tensors.push_back(tensor->tensor());
    if (tensor->copies_back()) operation->copies_back.emplace_back(tensor->original(), tensor->tensor());
  }
  endpoint_->enqueue(**queue, operation);
  return {endpoint_, *queue, std::move(operation)};
}

// ---- reductions ----------------------------------------------------------------------------------

Work Communicator::all_reduce_(const at::Tensor& tensor, ReduceOp op, CallOptions options) {
  return all_reduce(tensor, op, options, {});
}

Work Communicator::all_reduce(const at::Tensor& tensor, ReduceOp op, const CallOptions& options, Meaning meaning) {
  check(tensor, "the tensor of all_reduce_");
  check_reducible(tensor.scalar_type(), op);
  const Contiguous buffer(tensor, Contiguous::Use::Write);
  Request request = prepare(Collective::AllReduce, tensor, tensor.numel(), options);
  request.descriptor.op = op;
  if (meaning.shards > 0) request.descriptor.root = static_cast<std::int16_t>(meaning.shards);
  request.descriptor.blocks = meaning.blocks;
  request.output = buffer.bytes();
  return issue(std::move(request), {&buffer});
}

Work Communicator::together(const std::vector<at::Tensor>& tensors,
                            const std::function<Work(const at::Tensor&, Meaning)>& call) {
  if (tensors.empty()) return {};
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const auto& tensor : tensors) {
    check(tensor, "a tensor of the group");
    by_type[tensor.scalar_type()].push_back(tensor);
  }
  Work all;
  for (const auto& [type, group] : by_type) {
    std::vector<std::int64_t> counts;
    for (const auto& tensor : group) counts.push_back(tensor.numel());
    const std::int64_t elements = sum(counts);
    Meaning meaning;
    if (counts.size() > 1) meaning.blocks = hash_of_blocks(counts);
    if (adjacent(group)) {
      all.add(call(group[0].as_strided({elements}, {1}, group[0].storage_offset()), meaning));
      continue;
    }
    at::Tensor flat = empty({elements}, type);
    std::vector<std::pair<at::Tensor, at::Tensor>> parts;
    std::int64_t at = 0;
    for (const auto& tensor : group) {
      at::Tensor part = flat.narrow(0, at, tensor.numel()).view(tensor.sizes());
      copy_values(part, tensor);
      parts.emplace_back(tensor, part);
      at += tensor.numel();
    }
    Work work = call(flat, meaning);
    work.after([parts] {
      for (const auto& [tensor, part] : parts) copy_values(tensor, part);
    });
    all.add(std::move(work));
  }
  return all;
}

Work Communicator::all_reduce_(const std::vector<at::Tensor>& tensors, ReduceOp op, CallOptions options) {
  return together(tensors,
                  [&](const at::Tensor& flat, Meaning meaning) { return all_reduce(flat, op, options, meaning); });
}

Work Communicator::broadcast_(const std::vector<at::Tensor>& tensors, int root, CallOptions options) {
  return together(tensors,
                  [&](const at::Tensor& flat, Meaning meaning) { return broadcast(flat, root, options, meaning); });
}

Work Communicator::all_reduce_shards(const at::Tensor& result, const std::vector<at::Tensor>& shards, ReduceOp op,
                                     CallOptions options) {
  check(result, "the result of all_reduce_shards");
  check_reducible(result.scalar_type(), op);
  // The share of the tree that this rank holds tells how many shards there are in all.
  constexpr int kManyShards = 1 << 20;
  const int share = kManyShards / shards_of_rank(kManyShards, size_, rank_).count;
  const int mine = static_cast<int>(shards.size());
  constexpr int kMostShards = 1 << 14;
  if (mine * std::int64_t{share} > kMostShards)
    fail(Fault::Usage,
         fmt::format("{} shards in all; at most {} are possible", mine * std::int64_t{share}, kMostShards));
  if (mine == 0 || (mine & (mine - 1)) != 0) {
    fail(Fault::Usage,
         fmt::format("{} shards on rank {}; a rank holds a power of two, see shards_of_rank", mine, rank_));
  }
  std::vector<at::Tensor> contiguous;
  std::vector<const void*> inputs;
  std::vector<int> leaves(shards.size());
  std::iota(leaves.begin(), leaves.end(), 0);
  for (const auto& shard : shards) {
    check(shard, "a shard");
    if (shard.scalar_type() != result.scalar_type() || shard.numel() != result.numel()) {
      fail(Fault::Usage, fmt::format("a shard is {}[{}] but the result is {}[{}]", name_of(shard.scalar_type()),
                                     shard.numel(), name_of(result.scalar_type()), result.numel()));
    }
    contiguous.push_back(contiguous_values(shard));
    inputs.push_back(contiguous.back().data_ptr());
  }
  const TreeReduction reduction{result.scalar_type(), op, mine * share};
  at::Tensor partial = empty(result.sizes(), accumulate_type(result.scalar_type()));
  void* const partial_output = partial.data_ptr();
  reduce_tree(reduction, {0, mine}, leaves, inputs, Stage::Elements, {&partial_output, 1}, Stage::Partials,
              partial.numel());

  Work work = all_reduce(partial, op == ReduceOp::Avg ? ReduceOp::Sum : op, options, {.shards = mine * share});
  work.after([result, partial, reduction] {
    const at::Tensor finished = contiguous_values(result);
    const void* const input = partial.data_ptr();
    void* const output = finished.data_ptr();
    const int first_leaf = 0;
    reduce_tree(reduction, {0, 1}, {&first_leaf, 1}, {&input, 1}, Stage::Partials, {&output, 1}, Stage::Elements,
                partial.numel());
    if (!finished.is_same(result)) copy_values(result, finished);
  });
  return work;
}

Work Communicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, CallOptions options) {
  check(output, "the output of reduce_scatter");
  check(input, "the input of reduce_scatter");
  check_reducible(input.scalar_type(), op);
  check_same_type(output, input);
  if (input.numel() != output.numel() * size_) {
    fail(Fault::Usage, fmt::format("reduce_scatter of {} elements to {} ranks cannot give {} each", input.numel(),
                                   size_, output.numel()));
  }
  const Contiguous from(input, Contiguous::Use::Read), to(output, Contiguous::Use::Write);
  Request request = prepare(Collective::ReduceScatter, output, output.numel(), options);
  request.descriptor.op = op;
  request.input = from.bytes();
  request.output = to.bytes();
  return issue(std::move(request), {&from, &to});
}

Work Communicator::reduce_update_(const at::Tensor& target, const at::Tensor& input, ReduceOp op, Update update,
                                  CallOptions options) {
  check(target, "the target of reduce_update_");
  check(input, "the input of reduce_update_");
  check_reducible(input.scalar_type(), op);
  check_same_type(target, input);
  if (input.numel() != target.numel()) {
    fail(Fault::Usage, fmt::format("reduce_update_ of {} elements into {}", input.numel(), target.numel()));
  }
  if (!target.is_contiguous()) fail(Fault::Usage, "the target of reduce_update_ has gaps; it must be contiguous");
  const Contiguous from(input, Contiguous::Use::Read), to(target, Contiguous::Use::Write);
  Request request = prepare(Collective::ReduceUpdate, input, input.numel(), options);
  request.descriptor.op = op;
  request.input = from.bytes();
  request.output = to.bytes();
  request.update = std::move(update);
  return issue(std::move(request), {&from, &to});
}

std::vector<Slice> Communicator::owned(std::int64_t count, at::ScalarType type) const {
  return backend_->owned(count, c10::elementSize(type));
}

Work Communicator::reduce_(const at::Tensor& tensor, ReduceOp op, int root, CallOptions options) {
  check(tensor, "the tensor of reduce_");
  check_reducible(tensor.scalar_type(), op);
  check_peer(root, "root");
  const Contiguous buffer(tensor, Contiguous::Use::Write);
  Request request = prepare(Collective::Reduce, tensor, tensor.numel(), options);
  request.descriptor.op = op;
  request.descriptor.root = static_cast<std::int16_t>(root);
  request.output = buffer.bytes();
  return issue(std::move(request), {&buffer});
}

// ---- moving data ----------------------------------------------------------------------------------

Work Communicator::broadcast_(const at::Tensor& tensor, int root, CallOptions options) {
  return broadcast(tensor, root, options, {});
}

Work Communicator::broadcast(const at::Tensor& tensor, int root, const CallOptions& options, Meaning meaning) {
  check(tensor, "the tensor of broadcast_");
  check_peer(root, "root");
  const Contiguous buffer(tensor, Contiguous::Use::Write);
  Request request = prepare(Collective::Broadcast, tensor, tensor.numel(), options);
  request.descriptor.blocks = meaning.blocks;
  request.descriptor.root = static_cast<std::int16_t>(root);
  request.output = buffer.bytes();
  return issue(std::move(request), {&buffer});
}

Work Communicator::all_gather(const at::Tensor& output, const at::Tensor& input, std::vector<std::int64_t> counts,
                              CallOptions options) {
  check(output, "the output of all_gather");
  check(input, "the input of all_gather");
  check_same_type(output, input);
  counts = block_counts(std::move(counts), output.numel(), "the output");
  check_own_count(counts, input, "the input");
  const Contiguous from(input, Contiguous::Use::Read), to(output, Contiguous::Use::Write);
  Request request = prepare(Collective::AllGather, input, output.numel(), options);
  request.descriptor.blocks = hash_of_blocks(counts);
  request.input = from.bytes();
  request.output = to.bytes();
  request.send_counts = {input.numel()};
  request.recv_counts = std::move(counts);
  return issue(std::move(request), {&from, &to});
}

Work Communicator::gather(const at::Tensor& output, const at::Tensor& input, int root, std::vector<std::int64_t> counts,
                          CallOptions options) {
  check_peer(root, "root");
  check(input, "the input of gather");
  std::int64_t total = counts.empty() ? input.numel() * size_ : sum(counts);
  counts = block_counts(std::move(counts), total, "the output");
  check_own_count(counts, input, "the input");
  if (rank_ == root) {
    check(output, "the output of gather");
    check_same_type(output, input);
    if (output.numel() != total)
      fail(Fault::Usage, fmt::format("the output of gather has {} elements, {} are gathered", output.numel(), total));
  }
  const Contiguous from(input, Contiguous::Use::Read), to(rank_ == root ? output : nothing_, Contiguous::Use::Write);
  Request request = prepare(Collective::Gather, input, total, options);
  request.descriptor.blocks = hash_of_blocks(counts);
  request.descriptor.root = static_cast<std::int16_t>(root);
  request.input = from.bytes();
  request.output = to.bytes();
  request.send_counts = {input.numel()};
  request.recv_counts = std::move(counts);
  return issue(std::move(request), {&from, &to});
}

Work Communicator::scatter(const at::Tensor& output, const at::Tensor& input, int root,
                           std::vector<std::int64_t> counts, CallOptions options) {
  check_peer(root, "root");
  check(output, "the output of scatter");
  std::int64_t total = counts.empty() ? output.numel() * size_ : sum(counts);
  counts = block_counts(std::move(counts), total, "the input");
  check_own_count(counts, output, "the output");
  if (rank_ == root) {
    check(input, "the input of scatter");
    check_same_type(output, input);
    if (input.numel() != total)
      fail(Fault::Usage, fmt::format("the input of scatter has {} elements, {} are scattered", input.numel(), total));
  }
  const Contiguous from(rank_ == root ? input : nothing_, Contiguous::Use::Read), to(output, Contiguous::Use::Write);
  Request request = prepare(Collective::Scatter, output, total, options);
  request.descriptor.blocks = hash_of_blocks(counts);
  request.descriptor.root = static_cast<std::int16_t>(root);
  request.input = from.bytes();
  request.output = to.bytes();
  request.send_counts = std::move(counts);
  request.recv_counts = {output.numel()};
  return issue(std::move(request), {&from, &to});
}

Work Communicator::all_to_all(const at::Tensor& output, const at::Tensor& input, std::vector<std::int64_t> send_counts,
                              std::vector<std::int64_t> recv_counts, CallOptions options) {
  check(output, "the output of all_to_all");
  check(input, "the input of all_to_all");
  check_same_type(output, input);
  const bool equal = send_counts.empty() && recv_counts.empty();
  send_counts = block_counts(std::move(send_counts), input.numel(), "the input");
  recv_counts = block_counts(std::move(recv_counts), output.numel(), "the output");
  const Contiguous from(input, Contiguous::Use::Read), to(output, Contiguous::Use::Write);
  // Unequal blocks are known to their two ranks only, so nothing may depend on them:
  // the count is 0 and the lane fixed.
  Request request = prepare(Collective::AllToAll, input, equal ? send_counts[0] : 0, options);
  if (!equal && !options.lane) request.lane = Lane::Bulk;
  request.input = from.bytes();
  request.output = to.bytes();
  request.send_counts = std::move(send_counts);
  request.recv_counts = std::move(recv_counts);
  return issue(std::move(request), {&from, &to});
}

Work Communicator::send(const at::Tensor& tensor, int to, CallOptions options) {
  check(tensor, "the tensor of send");
  check_peer(to, "receiver");
  const Contiguous buffer(tensor, Contiguous::Use::Read);
  Request request = prepare(Collective::Send, tensor, tensor.numel(), options);
  request.descriptor.root = static_cast<std::int16_t>(to);
  request.input = buffer.bytes();
  return issue(std::move(request), {&buffer});
}

Work Communicator::recv_(const at::Tensor& tensor, int from, CallOptions options) {
  check(tensor, "the tensor of recv_");
  check_peer(from, "sender");
  const Contiguous buffer(tensor, Contiguous::Use::Write);
  Request request = prepare(Collective::Recv, tensor, tensor.numel(), options);
  request.descriptor.root = static_cast<std::int16_t>(from);
  request.output = buffer.bytes();
  return issue(std::move(request), {&buffer});
}

void Communicator::barrier(const char* name) {
  Request request;
  request.descriptor.set_name(name);
  issue(std::move(request), {}).wait();
}

// ---- byte strings -----------------------------------------------------------------------------------

std::string Communicator::broadcast_bytes(const std::string& bytes, int root) {
  at::Tensor length = at::empty({1}, at::kLong);
  *length.data_ptr<std::int64_t>() = static_cast<std::int64_t>(bytes.size());
  broadcast_(length, root).wait();
  at::Tensor data = at::empty({*length.data_ptr<std::int64_t>()}, at::kByte);
  if (rank_ == root) bytes.copy(static_cast<char*>(data.data_ptr()), bytes.size());
  broadcast_(data, root).wait();
  return {static_cast<const char*>(data.data_ptr()), static_cast<std::size_t>(data.numel())};
}

std::vector<std::string> Communicator::gather_bytes(const std::string& bytes) {
  at::Tensor length = at::empty({1}, at::kLong);
  *length.data_ptr<std::int64_t>() = static_cast<std::int64_t>(bytes.size());
  at::Tensor lengths = at::empty({size_}, at::kLong);
  all_gather(lengths, length).wait();
  const auto* first = lengths.data_ptr<std::int64_t>();
  const std::vector<std::int64_t> counts(first, first + size_);

  at::Tensor mine = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  bytes.copy(static_cast<char*>(mine.data_ptr()), bytes.size());
  at::Tensor all = at::empty({sum(counts)}, at::kByte);
  all_gather(all, mine, counts).wait();
  std::vector<std::string> result;
  const char* at = static_cast<const char*>(all.data_ptr());
  for (const auto count : counts) {
    result.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return result;
}

// ---- groups --------------------------------------------------------------------------------------------

std::vector<int> Communicator::hosts() {
  const int mine = endpoint_->world_rank_of(0);
  return gather_values(*this, std::span(&mine, 1));
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  struct Choice {
    int color, key, rank;
  };
  const Choice mine{color, key, rank_};
  auto members = gather_values(*this, std::span(&mine, 1));
  std::erase_if(members, [&](const Choice& choice) { return choice.color != color || color < 0; });
  std::stable_sort(members.begin(), members.end(), [](const Choice& a, const Choice& b) { return a.key < b.key; });
  std::vector<int> ranks;
  for (const auto& member : members) ranks.push_back(member.rank);
  auto group = backend_->subgroup(ranks, [this](const std::string& bytes) { return gather_bytes(bytes); });
  return group ? std::make_unique<Communicator>(endpoint_, std::move(group)) : nullptr;
}

std::unique_ptr<Communicator> Communicator::duplicate() { return split(0, rank_); }

const CollectiveStatistics& Communicator::statistics(Collective collective) const noexcept {
  return statistics_[static_cast<std::size_t>(collective)];
}

}  // namespace lockstep::comm
