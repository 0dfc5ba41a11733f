// The conformance suite: what every back-end must do. Run as it is over ranks as
// threads, and under `lockstep launch` and mpirun over the others.
#include "lockstep/comm/communicator.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <gtest/gtest.h>

#include "lockstep/comm/clock_offsets.h"
#include "lockstep/comm/on_ranks.h"
#include "lockstep/comm/tree.h"
#include "lockstep/core/error.h"

namespace lockstep::comm {
namespace {

using testing::on_ranks;

// From below the smallest message slot to several windows.
const std::vector<std::int64_t> kCounts = {0, 1, 7, 15, 256, 1000, 16'411, 300'007};

const std::vector<at::ScalarType> kTypes = {at::kDouble, at::kFloat,  at::kHalf, at::kBFloat16, at::kChar,
                                            at::kShort,  at::kInt,    at::kLong, at::kByte,     at::kUInt16,
                                            at::kUInt32, at::kUInt64, at::kBool};

/// Small whole numbers that differ by rank and place.
at::Tensor numbers(std::int64_t count, int rank, at::ScalarType type = at::kDouble) {
  return (at::arange(count, at::kLong).remainder(5) + rank + 1).to(type);
}

/// The same, but for a product only ones and twos: it stays exact in any order.
at::Tensor factors(std::int64_t count, int rank, at::ScalarType type, ReduceOp op) {
  return op == ReduceOp::Prod ? ((at::arange(count, at::kLong) + rank).remainder(2) + 1).to(type)
                              : numbers(count, rank, type);
}

/// The reduction of factors(count, 0..ranks-1, type, op), by PyTorch in float64.
at::Tensor expected(std::int64_t count, int ranks, at::ScalarType type, ReduceOp op) {
  at::Tensor result = factors(count, 0, type, op).to(at::kDouble);
  if (type == at::kBool) return at::ones({count}, at::kBool);
  for (int rank = 1; rank < ranks; ++rank) {
    const at::Tensor next = factors(count, rank, type, op).to(at::kDouble);
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg: result = result + next; break;
      case ReduceOp::Prod: result = result * next; break;
      case ReduceOp::Min: result = at::minimum(result, next); break;
      case ReduceOp::Max: result = at::maximum(result, next); break;
    }
  }
  return op == ReduceOp::Avg ? result / ranks : result;
}

std::string bytes_of(const at::Tensor& tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  return {static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes()};
}

::testing::AssertionResult same_bits(const at::Tensor& actual, const at::Tensor& wanted) {
  if (actual.sizes() == wanted.sizes() && actual.scalar_type() == wanted.scalar_type() &&
      bytes_of(actual) == bytes_of(wanted)) {
    return ::testing::AssertionSuccess();
  }
  const std::int64_t show = std::min<std::int64_t>(actual.numel(), 8);
  return ::testing::AssertionFailure() << "got " << actual.flatten().slice(0, 0, show).to(at::kDouble) << "\nwanted "
                                       << wanted.flatten().slice(0, 0, show).to(at::kDouble);
}

class Conformance : public ::testing::TestWithParam<testing::Ranks> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Conformance, ::testing::ValuesIn(testing::cases()));

TEST_P(Conformance, AllReduceSumsEveryTypeAndSize) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto type : kTypes) {
      for (const auto count : kCounts) {
        if (count > 20'000 && type != at::kFloat && type != at::kHalf) continue;
        at::Tensor tensor = numbers(count, group.rank(), type);
        group.all_reduce_(tensor, ReduceOp::Sum).wait();
        EXPECT_TRUE(same_bits(tensor, expected(count, group.size(), type, ReduceOp::Sum).to(type)))
            << type << " " << count;
      }
    }
  });
}

TEST_P(Conformance, AllReduceInPlaceInSharedMemory) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      at::Tensor tensor = group.empty({count}, at::kFloat);
      tensor.copy_(numbers(count, group.rank(), at::kFloat));
      group.all_reduce_(tensor, ReduceOp::Sum).wait();
      EXPECT_TRUE(same_bits(tensor, expected(count, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat))) << count;
    }
  });
}

TEST_P(Conformance, AllReduceWithSharedMemoryOnSomeRanksOnly) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      at::Tensor tensor = group.rank() % 2 == 0 ? group.empty({count}, at::kFloat) : at::empty({count}, at::kFloat);
      tensor.copy_(numbers(count, group.rank(), at::kFloat));
      group.all_reduce_(tensor, ReduceOp::Sum).wait();
      EXPECT_TRUE(same_bits(tensor, expected(count, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat))) << count;
    }
  });
}

TEST_P(Conformance, AllReduceEveryOperation) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto op : {ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max}) {
      for (const auto type : {at::kDouble, at::kFloat, at::kLong, at::kInt, at::kByte, at::kBool}) {
        if (op == ReduceOp::Avg && !at::isFloatingType(type)) continue;
        if (op == ReduceOp::Prod && type == at::kByte && group.size() > 7) continue;  // would wrap
        for (const std::int64_t count : {5, 1000, 40'000}) {
          at::Tensor tensor = factors(count, group.rank(), type, op);
          group.all_reduce_(tensor, op).wait();
          EXPECT_TRUE(same_bits(tensor, expected(count, group.size(), type, op).to(type)))
              << name_of(op) << " " << type << " " << count;
        }
      }
    }
  });
}

TEST_P(Conformance, BoolReducesLogically) {
  on_ranks(GetParam(), [](Communicator& group) {
    // Place i is true on rank i only.
    const at::Tensor mine = at::arange(group.size() + 1) == group.rank();
    at::Tensor any = mine.clone();
    group.all_reduce_(any, ReduceOp::Sum).wait();
    EXPECT_TRUE(same_bits(any, at::arange(group.size() + 1) < group.size()));
    at::Tensor all = mine.clone();
    group.all_reduce_(all, ReduceOp::Min).wait();
    EXPECT_TRUE(same_bits(all, group.size() == 1 ? mine : at::zeros({group.size() + 1}, at::kBool)));
  });
}

TEST_P(Conformance, MinAndMaxPropagateNaN) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto op : {ReduceOp::Min, ReduceOp::Max}) {
      for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
        for (int bearer = 0; bearer < group.size(); ++bearer) {
          at::Tensor tensor = at::ones({40}, at::TensorOptions(type));
          if (group.rank() == bearer) tensor[17] = std::numeric_limits<double>::quiet_NaN();
          group.all_reduce_(tensor, op).wait();
          EXPECT_TRUE(std::isnan(tensor[17].item<double>()));
          EXPECT_EQ(tensor[16].item<double>(), 1);
        }
      }
    }
  });
}

TEST_P(Conformance, HalfTypesAreSummedInFloat32AndRoundedOnce) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto type : {at::kHalf, at::kBFloat16}) {
      for (const std::int64_t count : {64, 5'000, 100'000}) {
        std::vector<at::Tensor> all;
        for (int rank = 0; rank < group.size(); ++rank) {
          all.push_back((at::arange(count, at::kFloat) * 0.37f + static_cast<float>(rank) * 1.9f).sin().to(type));
        }
        // The tree, in float32.
        const std::function<at::Tensor(TreeNode)> sum = [&](TreeNode node) {
          if (node.leaf()) return all[static_cast<std::size_t>(node.first)].to(at::kFloat);
          return sum(node.left()) + sum(node.right());
        };
        at::Tensor tensor = all[static_cast<std::size_t>(group.rank())].clone();
        group.all_reduce_(tensor, ReduceOp::Sum).wait();
        EXPECT_TRUE(same_bits(tensor, sum({0, group.size()}).to(type))) << type << " " << count;
      }
    }
  });
}

TEST_P(Conformance, SumFollowsTheFixedTree) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::int64_t count : {3, 200, 3'000, 20'000, 400'000}) {
      std::vector<at::Tensor> all;
      for (int rank = 0; rank < group.size(); ++rank) {
        all.push_back((at::arange(count, at::kFloat) * 1.7f + static_cast<float>(rank) * 0.3f).cos() *
                      std::pow(10.0f, static_cast<float>(rank % 5)));
      }
      const std::function<at::Tensor(TreeNode)> sum = [&](TreeNode node) {
        if (node.leaf()) return all[static_cast<std::size_t>(node.first)];
        return sum(node.left()) + sum(node.right());
      };
      const at::Tensor wanted = sum({0, group.size()});
      for (const bool shared : {false, true}) {
        at::Tensor tensor = shared ? group.empty({count}, at::kFloat) : at::empty({count}, at::kFloat);
        tensor.copy_(all[static_cast<std::size_t>(group.rank())]);
        group.all_reduce_(tensor, ReduceOp::Sum).wait();
        EXPECT_TRUE(same_bits(tensor, wanted)) << count << (shared ? " shared" : " private");
      }
    }
  });
}

TEST_P(Conformance, ShardsGiveTheSameBitsOnAnyNumberOfRanks) {
  constexpr int kShards = 16;
  if (GetParam().count > kShards) GTEST_SKIP() << "more ranks than shards";
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto type : {at::kFloat, at::kHalf, at::kDouble}) {
      for (const auto op : {ReduceOp::Sum, ReduceOp::Avg}) {
        const auto shard = [&](int index) {
          return ((at::arange(3'001, at::kFloat) * 0.71f + static_cast<float>(index)).sin() *
                  std::pow(7.0f, static_cast<float>(index % 4)))
              .to(type);
        };
        // One rank that holds all shards, computed with PyTorch.
        const std::function<at::Tensor(TreeNode)> sum = [&](TreeNode node) {
          if (node.leaf()) return shard(node.first).to(type == at::kHalf ? at::kFloat : type);
          return sum(node.left()) + sum(node.right());
        };
        at::Tensor wanted = sum({0, kShards});
        if (op == ReduceOp::Avg) wanted = wanted / kShards;
        std::vector<at::Tensor> mine;
        const TreeNode held = shards_of_rank(kShards, group.size(), group.rank());
        for (int index = held.first; index < held.end(); ++index) mine.push_back(shard(index));
        at::Tensor result = at::empty({3'001}, at::TensorOptions(type));
        group.all_reduce_shards(result, mine, op).wait();
        EXPECT_TRUE(same_bits(result, wanted.to(type))) << type << name_of(op);
      }
    }
  });
}

/// A step of gradient descent on the owner's elements, beside the same of an all-reduce.
TEST_P(Conformance, ReduceUpdateIsAllReduceAndAStep) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::int64_t count : kCounts) {
      for (const bool in_shared_memory : {true, false}) {
        const auto make = [&](at::ScalarType type) {
          return in_shared_memory ? group.empty({count}, type) : at::empty({count}, type);
        };
        at::Tensor input = make(at::kFloat), target = make(at::kFloat);
        const at::Tensor gradient = (numbers(count, group.rank()) / 7).to(at::kFloat);
        input.copy_(gradient);
        target.copy_(numbers(count, 3).to(at::kFloat) / 3);
        at::Tensor sum = gradient.clone();
        group.all_reduce_(sum, ReduceOp::Sum).wait();
        const at::Tensor wanted = target - 0.1F * sum;

        std::vector<int> updated(static_cast<std::size_t>(count));
        const auto update = [&](std::int64_t first, std::int64_t some, const void* reduced) {
          float* mine = target.data_ptr<float>() + first;
          for (std::int64_t i = 0; i < some; ++i) {
            ++updated[static_cast<std::size_t>(first + i)];
            const float step = 0.1F * static_cast<const float*>(reduced)[i];
            mine[i] -= step;
          }
        };
        group.reduce_update_(target, input, ReduceOp::Sum, update).wait();
        EXPECT_TRUE(same_bits(target, wanted)) << count;
        EXPECT_TRUE(same_bits(input, gradient)) << count;

        std::vector<int> owned(static_cast<std::size_t>(count));
        for (const Slice& slice : group.owned(count, at::kFloat)) {
          for (std::int64_t i = slice.begin; i < slice.end; ++i) ++owned[static_cast<std::size_t>(i)];
        }
        EXPECT_EQ(updated, owned);
        at::Tensor owners = at::tensor(owned).to(at::kLong);
        group.all_reduce_(owners, ReduceOp::Sum).wait();
        EXPECT_TRUE(owners.equal(at::ones_like(owners))) << count;
      }
    }
    EXPECT_THROW(group.reduce_update_(at::ones({3}), at::ones({4}), ReduceOp::Sum, [](auto...) {}), Error);
  });
}

TEST_P(Conformance, ReduceScatter) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      for (const bool shared : {false, true}) {
        const std::int64_t all = count * group.size();
        at::Tensor input = shared ? group.empty({all}, at::kFloat) : at::empty({all}, at::kFloat);
        input.copy_(numbers(all, group.rank(), at::kFloat));
        const at::Tensor before = input.clone();
        at::Tensor output = at::empty({count}, at::kFloat);
        group.reduce_scatter(output, input, ReduceOp::Sum).wait();
        const at::Tensor wanted = expected(all, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat);
        EXPECT_TRUE(same_bits(output, wanted.slice(0, group.rank() * count, (group.rank() + 1) * count))) << count;
        EXPECT_TRUE(same_bits(input, before)) << "the input was changed";
      }
    }
  });
}

TEST_P(Conformance, ReduceToEachRoot) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      for (int root = 0; root < group.size(); ++root) {
        at::Tensor tensor = numbers(count, group.rank(), at::kFloat);
        const at::Tensor before = tensor.clone();
        group.reduce_(tensor, ReduceOp::Sum, root).wait();
        EXPECT_TRUE(same_bits(tensor, group.rank() == root
                                          ? expected(count, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat)
                                          : before));
      }
    }
  });
}

TEST_P(Conformance, BroadcastFromEachRoot) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      for (int root = 0; root < group.size(); ++root) {
        for (const bool shared : {false, true}) {
          at::Tensor tensor = shared ? group.empty({count}, at::kInt) : at::empty({count}, at::kInt);
          tensor.copy_(numbers(count, group.rank(), at::kInt));
          group.broadcast_(tensor, root).wait();
          EXPECT_TRUE(same_bits(tensor, numbers(count, root, at::kInt))) << count << " from " << root;
        }
      }
    }
  });
}

/// Rank r holds base + r * 3 elements, and none if r is 1.
std::vector<std::int64_t> uneven(std::int64_t base, int ranks) {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank == 1 ? 0 : base + 3 * rank);
  return counts;
}

at::Tensor concatenated(const std::vector<std::int64_t>& counts) {
  std::vector<at::Tensor> parts;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    parts.push_back(numbers(counts[rank], static_cast<int>(rank), at::kDouble));
  return at::cat(parts);
}

TEST_P(Conformance, AllGatherEqualAndUnequal) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      for (const bool equal_sizes : {true, false}) {
        const auto counts = equal_sizes ? std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), count)
                                        : uneven(count, group.size());
        const std::int64_t mine = counts[static_cast<std::size_t>(group.rank())];
        for (const bool shared : {false, true}) {
          at::Tensor input = shared ? group.empty({mine}, at::kDouble) : at::empty({mine}, at::kDouble);
          input.copy_(numbers(mine, group.rank()));
          at::Tensor output = at::empty({std::accumulate(counts.begin(), counts.end(), std::int64_t{0})}, at::kDouble);
          group.all_gather(output, input, equal_sizes ? std::vector<std::int64_t>{} : counts).wait();
          EXPECT_TRUE(same_bits(output, concatenated(counts))) << count;
        }
      }
    }
  });
}

TEST_P(Conformance, GatherAndScatterEqualAndUnequal) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const auto count : kCounts) {
      for (const bool equal_sizes : {true, false}) {
        const int root = static_cast<int>(count) % group.size();
        const auto counts = equal_sizes ? std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), count)
                                        : uneven(count, group.size());
        const auto passed = equal_sizes ? std::vector<std::int64_t>{} : counts;
        const at::Tensor whole = concatenated(counts);
        const std::int64_t mine = counts[static_cast<std::size_t>(group.rank())];
        at::Tensor gathered = group.rank() == root ? at::empty_like(whole) : at::Tensor();
        group.gather(gathered, numbers(mine, group.rank()), root, passed).wait();
        if (group.rank() == root) {
          EXPECT_TRUE(same_bits(gathered, whole)) << count;
        }

        at::Tensor part = at::empty({mine}, at::kDouble);
        group.scatter(part, group.rank() == root ? whole : at::Tensor(), root, passed).wait();
        EXPECT_TRUE(same_bits(part, numbers(mine, group.rank()))) << count;
      }
    }
  });
}

TEST_P(Conformance, AllToAllEqualAndUnequal) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (const std::int64_t count : {0, 1, 7, 300, 50'001}) {
      for (const bool equal_sizes : {true, false}) {
        // Rank a sends to rank b: block(a, b), whose size differs by both.
        const auto size_of = [&](int from, int to) {
          return equal_sizes ? count : (from == to ? 0 : count + 2 * from + to);
        };
        const auto block = [&](int from, int to) { return numbers(size_of(from, to), 10 * from + to, at::kInt); };
        std::vector<at::Tensor> out, in;
        std::vector<std::int64_t> send, receive;
        for (int peer = 0; peer < group.size(); ++peer) {
          out.push_back(block(group.rank(), peer));
          in.push_back(block(peer, group.rank()));
          send.push_back(out.back().numel());
          receive.push_back(in.back().numel());
        }
        const at::Tensor wanted = at::cat(in);
        for (const bool shared : {false, true}) {
          at::Tensor input =
              shared ? group.empty({at::cat(out).numel()}, at::kInt) : at::empty({at::cat(out).numel()}, at::kInt);
          input.copy_(at::cat(out));
          at::Tensor output = at::empty_like(wanted);
          if (equal_sizes)
            group.all_to_all(output, input).wait();
          else
            group.all_to_all(output, input, send, receive).wait();
          EXPECT_TRUE(same_bits(output, wanted)) << count;
        }
      }
    }
  });
}

TEST_P(Conformance, SendAndReceiveInARing) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int next = (group.rank() + 1) % group.size();
    const int before = (group.rank() + group.size() - 1) % group.size();
    for (const auto count : kCounts) {
      for (const bool shared : {false, true}) {
        at::Tensor out = shared ? group.empty({count}, at::kFloat) : at::empty({count}, at::kFloat);
        out.copy_(numbers(count, group.rank(), at::kFloat));
        at::Tensor in = at::empty({count}, at::kFloat);
        Work sent = group.send(out, next);
        group.recv_(in, before).wait();
        sent.wait();
        EXPECT_TRUE(same_bits(in, numbers(count, before, at::kFloat))) << count;
      }
    }
  });
}

TEST_P(Conformance, MessagesKeepTheirOrder) {
  on_ranks(GetParam(), [](Communicator& group) {
    if (group.size() == 1) return;
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      if (group.rank() == 0) works.push_back(group.send(at::full({1 + i * 5'000}, i, at::kInt), 1));
      if (group.rank() == 1) {
        tensors.push_back(at::empty({1 + i * 5'000}, at::kInt));
        works.push_back(group.recv_(tensors.back(), 0));
      }
    }
    for (auto& work : works) work.wait();
    for (int i = 0; i < static_cast<int>(tensors.size()); ++i)
      EXPECT_TRUE(same_bits(tensors[static_cast<std::size_t>(i)], at::full({1 + i * 5'000}, i, at::kInt)));
  });
}

TEST_P(Conformance, StridedTensorsAreStaged) {
  on_ranks(GetParam(), [](Communicator& group) {
    at::Tensor base = numbers(60 * 50, group.rank(), at::kFloat).view({60, 50});
    at::Tensor columns = base.slice(1, 3, 40, 2);
    const at::Tensor wanted = expected(60 * 50, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat).view({60, 50});
    const at::Tensor untouched = base.slice(1, 0, 3).clone();
    group.all_reduce_(columns, ReduceOp::Sum).wait();
    EXPECT_TRUE(same_bits(columns, wanted.slice(1, 3, 40, 2)));
    EXPECT_TRUE(same_bits(base.slice(1, 0, 3), untouched));
    at::Tensor transposed = numbers(900, group.rank(), at::kFloat).view({30, 30}).t();
    group.broadcast_(transposed, group.size() - 1).wait();
    EXPECT_TRUE(same_bits(transposed, numbers(900, group.size() - 1, at::kFloat).view({30, 30}).t()));
  });
}

TEST_P(Conformance, SeveralTensorsAsOneGroup) {
  on_ranks(GetParam(), [](Communicator& group) {
    std::vector<at::Tensor> tensors;
    for (const auto count : {3, 100, 0, 5'000, 200'000})
      tensors.push_back(numbers(count, group.rank(), count == 100 ? at::kLong : at::kFloat));
    tensors.push_back(numbers(100, group.rank(), at::kFloat).view({10, 10}).t());
    group.all_reduce_(tensors, ReduceOp::Sum).wait();
    for (const auto& tensor : tensors) {
      at::Tensor wanted =
          expected(tensor.numel(), group.size(), tensor.scalar_type(), ReduceOp::Sum).to(tensor.scalar_type());
      if (tensor.dim() == 2) wanted = wanted.view({10, 10}).t();
      EXPECT_TRUE(same_bits(tensor, wanted));
    }
    // Views of a bucket need no copies.
    at::Tensor bucket = group.empty({1000}, at::kFloat);
    bucket.copy_(numbers(1000, group.rank(), at::kFloat));
    group.all_reduce_({bucket.narrow(0, 0, 10).view({2, 5}), bucket.narrow(0, 10, 990)}, ReduceOp::Sum).wait();
    EXPECT_TRUE(same_bits(bucket, expected(1000, group.size(), at::kFloat, ReduceOp::Sum).to(at::kFloat)));
  });
}

// A model's parameters are leaves that autograd watches.
TEST_P(Conformance, TensorsThatRequireGradients) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto parameter = [&](at::IntArrayRef sizes) {
      return at::full(sizes, group.rank() + 1.0, at::kFloat).requires_grad_();
    };
    const std::vector<at::Tensor> parameters{parameter({3, 5}), parameter({7}),
                                             parameter({4, 6}).detach().t().requires_grad_()};
    group.broadcast_(parameters, group.size() - 1).wait();
    at::Tensor strided = parameter({300, 700}).detach().t().requires_grad_();
    group.all_reduce_(strided, ReduceOp::Sum).wait();
    for (const auto& tensor : parameters) {
      EXPECT_TRUE(tensor.requires_grad() && tensor.is_leaf());
      EXPECT_EQ(tensor.detach().min().item<float>(), static_cast<float>(group.size()));
    }
    EXPECT_TRUE(strided.requires_grad() && strided.is_leaf());
    EXPECT_EQ(strided.detach().max().item<float>(), static_cast<float>(group.size() * (group.size() + 1)) / 2);
  });
}

TEST_P(Conformance, ManyAtOnceOnBothLanes) {
  on_ranks(GetParam(), [](Communicator& group) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) {
      const std::int64_t count = i % 3 == 0 ? 400'000 : 50 + i;
      tensors.push_back(numbers(count, group.rank() + i, at::kFloat));
      works.push_back(
          group.all_reduce_(tensors.back(), ReduceOp::Sum, {.lane = i % 2 == 0 ? Lane::Bulk : Lane::Urgent}));
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    for (int i = 0; i < 40; ++i) {
      at::Tensor wanted = at::zeros_like(tensors[static_cast<std::size_t>(i)]);
      for (int rank = 0; rank < group.size(); ++rank) wanted += numbers(wanted.numel(), rank + i, at::kFloat);
      EXPECT_TRUE(same_bits(tensors[static_cast<std::size_t>(i)], wanted)) << i;
    }
  });
}

// Rank 0 waits for the bulk collective before it issues the urgent one, the others
// after: one lane must not hold up the other.
TEST_P(Conformance, UrgentPassesBulk) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (int round = 0; round < 20; ++round) {
      at::Tensor large = at::ones({500'000}, at::kFloat), small = at::ones({10}, at::kFloat);
      Work bulk = group.all_reduce_(large, ReduceOp::Sum, {.lane = Lane::Bulk});
      if (group.rank() == 0) bulk.wait();
      Work urgent = group.all_reduce_(small, ReduceOp::Sum, {.lane = Lane::Urgent});
      bulk.wait();
      urgent.wait();
      EXPECT_EQ(large[499'999].item<float>(), static_cast<float>(group.size()));
      EXPECT_EQ(small[9].item<float>(), static_cast<float>(group.size()));
    }
  });
}

TEST_P(Conformance, ByteStrings) {
  on_ranks(GetParam(), [](Communicator& group) {
    const std::string mine(static_cast<std::size_t>(group.rank() * 1000), static_cast<char>('a' + group.rank()));
    const auto all = group.gather_bytes(mine);
    ASSERT_EQ(static_cast<int>(all.size()), group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ(all[static_cast<std::size_t>(rank)],
                std::string(static_cast<std::size_t>(rank * 1000), static_cast<char>('a' + rank)));
    }
    EXPECT_EQ(group.broadcast_bytes(group.rank() == group.size() - 1 ? std::string("with a \0 inside", 15) : "",
                                    group.size() - 1),
              std::string("with a \0 inside", 15));
  });
}

TEST_P(Conformance, SplitAndDuplicate) {
  on_ranks(GetParam(), [](Communicator& group) {
    for (int round = 0; round < 3; ++round) {
      const auto half = group.split(group.rank() % 2, -group.rank());  // reversed order
      ASSERT_NE(half, nullptr);
      const int members = (group.size() + 1 - group.rank() % 2) / 2;
      EXPECT_EQ(half->size(), members);
      EXPECT_EQ(half->rank(), members - 1 - group.rank() / 2);
      for (const std::int64_t count : {10, 300'000}) {
        at::Tensor tensor = at::full({count}, group.rank(), at::kLong);
        half->all_reduce_(tensor, ReduceOp::Sum).wait();
        std::int64_t wanted = 0;
        for (int rank = group.rank() % 2; rank < group.size(); rank += 2) wanted += rank;
        EXPECT_EQ(tensor[count - 1].item<std::int64_t>(), wanted);
      }
      const auto copy = group.duplicate();
      EXPECT_EQ(copy->rank(), group.rank());
      copy->barrier();
      const auto lonely = group.split(group.rank() == 0 ? 5 : -1);
      EXPECT_EQ(lonely != nullptr, group.rank() == 0);
    }
  });
}

// A copy of the whole group and one of a part of it, made one after the other from different
// parents, work at the same time and begin in another order on each rank.
TEST_P(Conformance, GroupsOfGroupsDoNotMix) {
  on_ranks(GetParam(), [](Communicator& group) {
    const int parity = group.rank() % 2;
    const auto half = group.split(group.size() <= 3 ? 0 : parity);
    const auto whole_copy = group.duplicate();
    const auto half_copy = half->duplicate();
    const auto half_again = half_copy->split(0);
    for (int round = 0; round < 5; ++round) {
      constexpr std::int64_t kCount = 300'007;
      at::Tensor whole = at::full({kCount}, group.rank() + 1, at::kLong);
      at::Tensor first = at::full({kCount}, 1000 * (group.rank() + 1), at::kLong), second = first * 1000;
      const auto sum = [](Communicator& ranks, const at::Tensor& tensor) {
        return ranks.all_reduce_(tensor, ReduceOp::Sum, {.lane = Lane::Bulk});
      };
      std::vector<Work> works;
      if (parity == 0) works.push_back(sum(*whole_copy, whole));
      works.push_back(sum(*half_copy, first));
      if (parity == 1) works.push_back(sum(*whole_copy, whole));
      works.push_back(sum(*half_again, second));
      for (auto& work : works) work.wait();
      std::int64_t of_all = 0, of_half = 0;
      for (int rank = 0; rank < group.size(); ++rank) {
        of_all += rank + 1;
        if (group.size() <= 3 || rank % 2 == parity) of_half += rank + 1;
      }
      EXPECT_TRUE(same_bits(whole, at::full({kCount}, of_all, at::kLong)));
      EXPECT_TRUE(same_bits(first, at::full({kCount}, 1000 * of_half, at::kLong)));
      EXPECT_TRUE(same_bits(second, at::full({kCount}, 1'000'000 * of_half, at::kLong)));
    }
  });
}

// Each rank's threads make groups from communicators of their own at the same time.
TEST_P(Conformance, GroupsMadeByTwoThreads) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto other = group.duplicate();
    std::vector<std::unique_ptr<Communicator>> made[2];
    const auto make = [&](Communicator& parent, std::vector<std::unique_ptr<Communicator>>& into) {
      for (int i = 0; i < 10; ++i) into.push_back(parent.duplicate());
    };
    std::thread beside([&] { make(*other, made[1]); });
    make(group, made[0]);
    beside.join();
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (std::size_t i = 0; i < 20; ++i) {
      // On odd ranks the other thread's groups first.
      const std::size_t which = (i + static_cast<std::size_t>(group.rank())) % 2;
      tensors.push_back(at::full({40'000}, static_cast<std::int64_t>(which + 1) * 100, at::kLong));
      works.push_back(made[which][i / 2]->all_reduce_(tensors.back(), ReduceOp::Sum, {.lane = Lane::Bulk}));
    }
    for (auto& work : works) work.wait();
    for (std::size_t i = 0; i < 20; ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(group.rank())) % 2;
      EXPECT_EQ(tensors[i][39'999].item<std::int64_t>(), static_cast<std::int64_t>(which + 1) * 100 * group.size());
    }
  });
}

TEST_P(Conformance, SharedTensorsMayBeMovedResizedAndFreed) {
  on_ranks(GetParam(), [](Communicator& group) {
    at::Tensor survivor;
    {
      const auto other = group.duplicate();
      at::Tensor tensor = other->empty({100}, at::kFloat);
      tensor.fill_(group.rank() + 1);
      at::Tensor moved = std::move(tensor);
      moved.resize_({70'000}).fill_(group.rank() + 1);
      other->all_reduce_(moved, ReduceOp::Sum).wait();
      EXPECT_EQ(moved[69'999].item<float>(), static_cast<float>(group.size() * (group.size() + 1)) / 2);
      moved.unsafeGetTensorImpl()->set_sizes_contiguous({0});
      at::native::resize_bytes_cpu(moved.storage().unsafeGetStorageImpl(), 0);
      moved.resize_({80'000}).fill_(group.rank() + 1);
      other->all_reduce_(moved, ReduceOp::Sum).wait();
      EXPECT_EQ(moved[79'999].item<float>(), static_cast<float>(group.size() * (group.size() + 1)) / 2);
      at::Tensor freed = other->empty({300'000}, at::kFloat);
      freed.fill_(1);
      Work work = other->all_reduce_(freed, ReduceOp::Sum, {.lane = Lane::Bulk});
      freed.reset();
      work.wait();
      survivor = moved;
    }
    EXPECT_EQ(survivor[0].item<float>(), static_cast<float>(group.size() * (group.size() + 1)) / 2);
    for (int i = 0; i < 50; ++i) (void)group.empty({1 << 20}, at::kFloat);
  });
}

TEST_P(Conformance, WrongArgumentsAreRefusedOnTheSpot) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto message = [](const std::function<void()>& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.fault() == Fault::Usage ? error.what() : "another fault";
      }
      return "nothing thrown";
    };
    const auto contains = [](const std::string& text, const std::string& part) {
      return text.find(part) != std::string::npos;
    };
    at::Tensor integers = at::ones({3}, at::kInt);
    EXPECT_TRUE(contains(message([&] { group.all_reduce_(integers, ReduceOp::Avg).wait(); }), "avg of int32"));
    EXPECT_TRUE(contains(message([&] { group.all_reduce_(at::ones({3}, at::kComplexFloat), ReduceOp::Sum).wait(); }),
                         "cannot be reduced"));
    EXPECT_TRUE(contains(message([&] { group.all_reduce_(at::Tensor(), ReduceOp::Sum).wait(); }), "undefined"));
    EXPECT_TRUE(contains(
        message([&] { group.all_reduce_(at::empty({3}, at::device(at::kMeta)), ReduceOp::Sum).wait(); }), "meta"));
    const at::Tensor quantised = at::quantize_per_tensor(at::ones({3}), 0.1, 0, at::kQInt8);
    EXPECT_TRUE(contains(message([&] { group.broadcast_(quantised, 0).wait(); }), "quantised tensor"));
    EXPECT_TRUE(contains(message([&] { group.broadcast_(integers, group.size()).wait(); }), "not a rank"));
    EXPECT_TRUE(contains(message([&] { group.all_gather(at::ones({group.size() * 3}), integers).wait(); }),
                         "output is float32"));
    EXPECT_TRUE(contains(
        message([&] { group.reduce_scatter(at::ones({2}), at::ones({2 * group.size() + 1}), ReduceOp::Sum).wait(); }),
        "cannot give 2 each"));
    group.barrier();
  });
}

TEST_P(Conformance, ClockOffsets) {
  on_ranks(GetParam(), [](Communicator& group) {
    constexpr std::int64_t kHour_ns = 3'600'000'000'000, kSlack_ns = 200'000'000;  // the machine may be busy
    const auto same = clock_offsets(group);
    const auto apart = clock_offsets(group, [&] { return realtime_ns() + group.rank() * kHour_ns; });
    ASSERT_EQ(static_cast<int>(same.size()), group.size());
    ASSERT_EQ(static_cast<int>(apart.size()), group.size());
    EXPECT_EQ(same[0], 0);
    for (int rank = 1; rank < group.size(); ++rank) {
      EXPECT_LT(std::abs(same[static_cast<std::size_t>(rank)]), kSlack_ns);
      EXPECT_LT(std::abs(apart[static_cast<std::size_t>(rank)] + rank * kHour_ns), kSlack_ns);
    }
  });
}

static_assert(!std::is_copy_constructible_v<Work>, "the steps after a collective run once");

TEST_P(Conformance, StatisticsCount) {
  on_ranks(GetParam(), [](Communicator& group) {
    const auto before = group.statistics(Collective::AllReduce);
    at::Tensor tensor = at::ones({10}, at::kFloat);
    group.all_reduce_(tensor, ReduceOp::Sum).wait();
    const auto after = group.statistics(Collective::AllReduce);
    EXPECT_EQ(after.calls - before.calls, 1);
    EXPECT_EQ(after.bytes - before.bytes, 40);
    EXPECT_EQ(after.on_caller - before.on_caller, 1);
  });
}

}  // namespace
}  // namespace lockstep::comm
