// One rank of `lockstep tour`: rank 0 tells, the others take part.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "commands.h"
#include "lockstep/comm/runtime.h"
#include "lockstep/comm/tree.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/hash.h"
#include "lockstep/core/text.h"
#include "lockstep/profile/span.h"

namespace lockstep::apps {
namespace {

using comm::Communicator;
using comm::ReduceOp;

class Tour {
 public:
  explicit Tour(Communicator& world) : world_(world), rank_(world.rank()), size_(world.size()) {}

  void run() {
    greet();
    show_collectives();
    show_same_bits();
  }

 private:
  template <class... Arguments>
  void tell(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    if (rank_ == 0) fmt::print("{}\n", fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  void greet() {
    const profile::Span span("tour: greet");
    std::vector<std::string> cpus;
    for (const int cpu : usable_cpus()) cpus.push_back(std::to_string(cpu));
    const auto hellos = world_.gather_bytes(
        fmt::format("process {}, CPU{} {}", getpid(), cpus.size() == 1 ? "" : "s", join(cpus, ",")));
    tell("Hello from {} rank{}, connected by the back-end '{}':", size_, size_ == 1 ? "" : "s", world_.backend());
    for (int rank = 0; rank < size_; ++rank) tell("  rank {}: {}", rank, hellos[static_cast<std::size_t>(rank)]);
  }

  // ---- each collective on a few numbers ---------------------------------------------------

  static std::string text_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return "-";
    std::vector<std::string> numbers;
    for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers.push_back(std::to_string(tensor[i].item<std::int64_t>()));
    return join(numbers, " ");
  }

  /// "1 | 2 | 3" of all ranks, or "6 on every rank".
  std::string of_all(const at::Tensor& tensor) {
    const auto texts = world_.gather_bytes(text_of(tensor));
    const bool equal =
        size_ > 1 && std::all_of(texts.begin(), texts.end(), [&](const auto& t) { return t == texts[0]; });
    return equal ? texts[0] + " on every rank" : join(texts, " | ");
  }

  void show(const char* name, const at::Tensor& before, const at::Tensor& after) {
    const auto from = of_all(before);
    const auto to = of_all(after);
    tell("  {:<16} {}  ->  {}", name, from, to);
  }

  /// Ten times the rank plus 1, plus 2, …
  at::Tensor mine(std::int64_t count) const { return at::arange(1, count + 1, at::kLong) + 10 * rank_; }

  void show_collectives() {
    const profile::Span span("tour: collectives");
    const std::int64_t ranks = size_;
    tell("\nEvery collective, on a few numbers (rank 0 | rank 1 | ...):");
    auto tensor = mine(2);
    world_.broadcast_(tensor, 0).wait();
    show("broadcast", mine(2), tensor);
    tensor = mine(2);
    world_.all_reduce_(tensor, ReduceOp::Sum).wait();
    show("all_reduce sum", mine(2), tensor);
    tensor = mine(2);
    world_.all_reduce_(tensor, ReduceOp::Max).wait();
    show("all_reduce max", mine(2), tensor);
    tensor = mine(2);
    world_.reduce_(tensor, ReduceOp::Sum, 0).wait();
    show("reduce sum", mine(2), tensor);
    tensor = at::empty({1}, at::kLong);
    world_.reduce_scatter(tensor, mine(ranks), ReduceOp::Sum).wait();
    show("reduce_scatter", mine(ranks), tensor);
    tensor = at::empty({ranks}, at::kLong);
    world_.all_gather(tensor, mine(1)).wait();
    show("all_gather", mine(1), tensor);
    tensor = rank_ == 0 ? at::empty({ranks}, at::kLong) : at::Tensor();
    world_.gather(tensor, mine(1), 0).wait();
    show("gather", mine(1), tensor);
    const auto parts = rank_ == 0 ? mine(ranks) : at::Tensor();
    tensor = at::empty({1}, at::kLong);
    world_.scatter(tensor, parts, 0).wait();
    show("scatter", parts, tensor);
    tensor = at::empty({ranks}, at::kLong);
    world_.all_to_all(tensor, mine(ranks)).wait();
    show("all_to_all", mine(ranks), tensor);
    tensor = at::empty({1}, at::kLong);
    auto sent = world_.send(mine(1), (rank_ + 1) % size_);
    world_.recv_(tensor, (rank_ + size_ - 1) % size_).wait();
    sent.wait();
    show("send, recv", mine(1), tensor);
  }

  // ---- the same bits on any number of ranks ------------------------------------------------

  // Of very different magnitudes, so that almost any other order of adding shows.
  static at::Tensor shard(int index) {
    auto tensor = at::empty({1000}, at::kFloat);
    auto* values = tensor.mutable_data_ptr<float>();
    for (int i = 0; i < 1000; ++i) {
      values[i] = static_cast<float>(std::sin(1000.0 * index + i) * std::pow(10.0, (index + i) % 7));
    }
    return tensor;
  }

  void show_same_bits() {
    const profile::Span span("tour: same bits");
    const int shards = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(size_, 16))));
    tell("\nThe sum of {} shards of 1000 floats, spread over {}; the hash of its bits:", shards,
         size_ == 1 ? "1 rank" : fmt::format("1 to {} ranks", size_));
    for (int ranks = 1; ranks <= size_; ++ranks) {
      const auto group = world_.split(rank_ < ranks ? 0 : -1);
      if (!group) continue;
      const auto own = comm::shards_of_rank(shards, ranks, rank_);
      std::vector<at::Tensor> tensors;
      for (int index = own.first; index < own.end(); ++index) tensors.push_back(shard(index));
      auto sum = at::empty({1000}, at::kFloat);
      group->all_reduce_shards(sum, tensors, ReduceOp::Sum).wait();
      tell("  {:>2} rank{}  {:016x}", ranks, ranks == 1 ? " " : "s",
           hash64(sum.const_data_ptr(), static_cast<std::size_t>(sum.nbytes())));
    }
  }

  Communicator& world_;
  int rank_;
  int size_;
};

}  // namespace

void add_tour_rank(CLI::App& app) {
  auto* command = app.add_subcommand("tour-rank", "One rank of the tour");
  command->group("");  // hidden: only `tour` starts it
  command->callback(
      [] { end_with(comm::run_program(0, nullptr, [](comm::Runtime& runtime) { Tour(runtime.world()).run(); })); });
}

}  // namespace lockstep::apps
