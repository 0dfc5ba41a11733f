// What must never be a silent hang, over ranks as threads: on one host, staged as
// between processes, and on pretended hosts. Every rank must end with an Error that
// names both sides, in time. tests/failures does the same with processes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/endpoint.h"
#include "lockstep/comm/on_ranks.h"
#include "lockstep/core/error.h"
#include "lockstep/profile/span.h"

namespace lockstep::comm {
namespace {

using testing::on_ranks;
using testing::Ranks;

// What the ranks promise when they disagree.
constexpr double kDisagreement_s = 2;
// Above what the calling thread performs itself, in any tuning.
constexpr std::int64_t kLarge = 1 << 20;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// How a run ended: what each rank threw (empty: nothing), what reached the caller, and when.
struct Ending {
  std::vector<std::string> of_rank;
  std::string thrown;
  double after_s = 0;
};

Ending ending_of(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  Ending ending;
  ending.of_rank.resize(static_cast<std::size_t>(ranks.count));
  const double start_s = now_s();
  try {
    on_ranks(ranks, [&](Communicator& group) {
      try {
        body(group);
      } catch (const std::exception& error) {
        ending.of_rank[static_cast<std::size_t>(group.rank())] = error.what();
        throw;
      }
    });
  } catch (const std::exception& error) {
    ending.thrown = error.what();
  }
  ending.after_s = now_s() - start_s;
  return ending;
}

/// Every rank threw all of `parts`, and the caller reads what some rank threw.
void expect_all_threw(const Ending& ending, const std::vector<std::string>& parts) {
  EXPECT_NE(ending.thrown, "");
  for (std::size_t rank = 0; rank < ending.of_rank.size(); ++rank) {
    for (const auto& part : parts) {
      EXPECT_TRUE(has(ending.of_rank[rank], part))
          << "rank " << rank << " ended with '" << ending.of_rank[rank] << "', without '" << part << "'";
    }
  }
}

at::Tensor ones(std::int64_t count, at::ScalarType type = at::kFloat) {
  return at::ones({count}, at::TensorOptions(type));
}

class Failure : public ::testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override {
    if (testing::launched()) GTEST_SKIP() << "its ranks are threads";
  }

  int odd_one() const { return GetParam().count - 1; }

  /// After a good collective the last rank calls `theirs` and the others `ours`.
  void expect_disagreement(const std::function<void(Communicator&)>& ours,
                           const std::function<void(Communicator&)>& theirs, const std::string& ours_text,
                           const std::string& theirs_text) {
    const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
      at::Tensor tensor = ones(10);
      group.all_reduce_(tensor, ReduceOp::Sum).wait();
      if (group.rank() == odd_one())
        theirs(group);
      else
        ours(group);
    });
    expect_all_threw(ending, {ours_text, fmt::format("rank {} called {}", odd_one(), theirs_text), "same order"});
    EXPECT_LT(ending.after_s, kDisagreement_s);
  }

  /// The same for a small and a large message.
  void expect_disagreement(const std::function<void(Communicator&, std::int64_t)>& ours,
                           const std::function<void(Communicator&, std::int64_t)>& theirs,
                           const std::function<std::string(std::int64_t)>& ours_text,
                           const std::function<std::string(std::int64_t)>& theirs_text) {
    for (const std::int64_t count : {std::int64_t{10}, std::int64_t{3'000}, kLarge}) {
      SCOPED_TRACE(count);
      expect_disagreement([&](Communicator& group) { ours(group, count); },
                          [&](Communicator& group) { theirs(group, count); }, ours_text(count), theirs_text(count));
    }
  }
};

std::vector<Ranks> failure_cases() {
  return {
      {2}, {3}, {3, true}, {8}, {2, false, {0, 1}}, {5, false, {0, 0, 1, 1, 1}}, {8, false, {0, 0, 1, 1, 2, 2, 3, 3}}};
}
INSTANTIATE_TEST_SUITE_P(Ranks, Failure, ::testing::ValuesIn(failure_cases()));

void all_reduce(Communicator& group, std::int64_t count, at::ScalarType type = at::kFloat, ReduceOp op = ReduceOp::Sum,
                CallOptions options = {}) {
  at::Tensor tensor = ones(count, type);
  group.all_reduce_(tensor, op, options).wait();
}

std::string all_reduce_text(std::int64_t count) { return fmt::format("all_reduce(float32[{}], sum) #1", count); }

// ---- ranks that disagree -------------------------------------------------------------------------

TEST_P(Failure, AnotherOperation) {
  expect_disagreement([](Communicator& group, std::int64_t count) { all_reduce(group, count); },
                      [](Communicator& group, std::int64_t count) {
                        at::Tensor tensor = ones(count);
                        group.broadcast_(tensor, 0).wait();
                      },
                      all_reduce_text,
                      [](std::int64_t count) { return fmt::format("broadcast(float32[{}], root 0) #1", count); });
}

TEST_P(Failure, ABarrierOfOneRank) {
  expect_disagreement([](Communicator& group, std::int64_t count) { all_reduce(group, count); },
                      [](Communicator& group, std::int64_t) { group.barrier(); }, all_reduce_text,
                      [](std::int64_t) { return "barrier #1"; });
}

TEST_P(Failure, AnotherType) {
  expect_disagreement([](Communicator& group, std::int64_t count) { all_reduce(group, count); },
                      [](Communicator& group, std::int64_t count) { all_reduce(group, count, at::kInt); },
                      all_reduce_text,
                      [](std::int64_t count) { return fmt::format("all_reduce(int32[{}], sum) #1", count); });
}

TEST_P(Failure, AnotherCount) {
  expect_disagreement([](Communicator& group, std::int64_t count) { all_reduce(group, count); },
                      [](Communicator& group, std::int64_t count) { all_reduce(group, count + 1); }, all_reduce_text,
                      [](std::int64_t count) { return fmt::format("all_reduce(float32[{}], sum) #1", count + 1); });
}

TEST_P(Failure, AnotherReduction) {
  expect_disagreement(
      [](Communicator& group, std::int64_t count) { all_reduce(group, count); },
      [](Communicator& group, std::int64_t count) { all_reduce(group, count, at::kFloat, ReduceOp::Max); },
      all_reduce_text, [](std::int64_t count) { return fmt::format("all_reduce(float32[{}], max) #1", count); });
}

TEST_P(Failure, AnotherRoot) {
  const auto broadcast_from = [](int root) {
    return [root](Communicator& group, std::int64_t count) {
      at::Tensor tensor = ones(count);
      group.broadcast_(tensor, root).wait();
    };
  };
  const auto text = [](int root) {
    return [root](std::int64_t count) { return fmt::format("broadcast(float32[{}], root {}) #1", count, root); };
  };
  expect_disagreement(broadcast_from(0), broadcast_from(1), text(0), text(1));
}

TEST_P(Failure, AnotherName) {
  const auto named = [](const char* name) {
    return [name](Communicator& group, std::int64_t count) {
      all_reduce(group, count, at::kFloat, ReduceOp::Sum, {.name = name});
    };
  };
  const auto text = [](const char* name) {
    return [name](std::int64_t count) { return fmt::format("all_reduce(float32[{}], sum, '{}') #1", count, name); };
  };
  expect_disagreement(named("weights"), named("biases"), text("weights"), text("biases"));
}

TEST_P(Failure, AnotherOrder) {
  const auto pair = [](const char* first, const char* second) {
    return [=](Communicator& group, std::int64_t count) {
      at::Tensor a = ones(count), b = ones(count);
      Work first_work = group.all_reduce_(a, ReduceOp::Sum, {.name = first});
      Work second_work = group.all_reduce_(b, ReduceOp::Sum, {.name = second});
      first_work.wait();
      second_work.wait();
    };
  };
  const auto text = [](const char* name) {
    return [name](std::int64_t count) { return fmt::format("all_reduce(float32[{}], sum, '{}') #1", count, name); };
  };
  expect_disagreement(pair("a", "b"), pair("b", "a"), text("a"), text("b"));
}

// The ranks wait in different lanes and would never meet.
// All ranks mean the same number of elements, cut in another way.
TEST_P(Failure, OtherCountsOfTheBlocks) {
  using Call = std::function<void(Communicator&, std::vector<std::int64_t>)>;
  const Call calls[] = {[](Communicator& group, std::vector<std::int64_t> counts) {
                          at::Tensor input = ones(counts[static_cast<std::size_t>(group.rank())]);
                          group.all_gather(ones(at::tensor(counts).sum().item<std::int64_t>()), input, counts).wait();
                        },
                        [](Communicator& group, std::vector<std::int64_t> counts) {
                          at::Tensor input = ones(counts[static_cast<std::size_t>(group.rank())]);
                          group.gather(ones(at::tensor(counts).sum().item<std::int64_t>()), input, 0, counts).wait();
                        },
                        [](Communicator& group, std::vector<std::int64_t> counts) {
                          at::Tensor output = ones(counts[static_cast<std::size_t>(group.rank())]);
                          group.scatter(output, ones(at::tensor(counts).sum().item<std::int64_t>()), 0, counts).wait();
                        },
                        [](Communicator& group, std::vector<std::int64_t> counts) {
                          group.all_reduce_({ones(counts.front()), ones(counts.back())}, ReduceOp::Sum).wait();
                        },
                        [](Communicator& group, std::vector<std::int64_t> counts) {
                          group.broadcast_({ones(counts.front()), ones(counts.back())}, 0).wait();
                        }};
  for (const auto& call : calls) {
    for (const std::int64_t count : {std::int64_t{3}, kLarge / 8}) {
      const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
        std::vector<std::int64_t> counts(static_cast<std::size_t>(group.size()), count);
        (group.rank() == odd_one() ? counts.front() : counts.back()) += 1;
        call(group, counts);
      });
      expect_all_threw(ending, {"both called", "with other counts of the blocks"});
      EXPECT_LT(ending.after_s, kDisagreement_s);
    }
  }
}

TEST_P(Failure, AnotherBlockBetweenTwoRanks) {
  for (const std::int64_t count : {std::int64_t{3}, kLarge / 8}) {
    const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
      const std::vector<std::int64_t> expected(static_cast<std::size_t>(group.size()), count);
      std::vector<std::int64_t> sent = expected;
      if (group.rank() == odd_one()) sent.front() += 1;
      const auto total = [](const std::vector<std::int64_t>& counts) {
        return at::tensor(counts).sum().item<std::int64_t>();
      };
      group.all_to_all(ones(total(expected)), ones(total(sent)), sent, expected).wait();
    });
    expect_all_threw(
        ending, {fmt::format("rank 0 receives float32[{}] but rank {} sent float32[{}]", count, odd_one(), count + 1),
                 "in all_to_all(float32) #0"});
    EXPECT_LT(ending.after_s, kDisagreement_s);
  }
}

TEST_P(Failure, SmallAgainstLarge) {
  expect_disagreement([](Communicator& group) { all_reduce(group, kLarge); },
                      [](Communicator& group) { all_reduce(group, 10); }, all_reduce_text(kLarge), all_reduce_text(10));
  expect_disagreement([](Communicator& group) { all_reduce(group, 10); },
                      [](Communicator& group) { all_reduce(group, kLarge); }, all_reduce_text(10),
                      all_reduce_text(kLarge));
}

TEST_P(Failure, AnotherLane) {
  const auto in = [](Lane lane) {
    return [lane](Communicator& group) { all_reduce(group, 10, at::kFloat, ReduceOp::Sum, {.lane = lane}); };
  };
  expect_disagreement(in(Lane::Urgent), in(Lane::Bulk), all_reduce_text(10) + " in lane urgent",
                      all_reduce_text(10) + " in lane bulk");
}

TEST_P(Failure, LanesInAnotherOrder) {
  const auto both = [](bool large_first) {
    return [large_first](Communicator& group) {
      at::Tensor large = ones(kLarge);
      Work work;
      if (large_first) work = group.all_reduce_(large, ReduceOp::Sum);
      all_reduce(group, 10);
      if (!large_first) work = group.all_reduce_(large, ReduceOp::Sum);
      work.wait();
    };
  };
  // Whichever lane meets first, the ranks issued different things as number 1 and 2.
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    all_reduce(group, 10);
    both(group.rank() != odd_one())(group);
  });
  expect_all_threw(ending, {fmt::format("float32[{}]", kLarge), "float32[10]", fmt::format("rank {} called", odd_one()),
                            "same order"});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, WhileSeveralAreQueued) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      const bool odd = group.rank() == odd_one() && i == 7;
      tensors.push_back(ones(odd ? kLarge + 1 : kLarge));
      works.push_back(group.all_reduce_(tensors.back(), ReduceOp::Sum));
    }
    std::string first;
    for (auto& work : works) {
      try {
        work.wait();
      } catch (const Error& error) {
        if (first.empty())
          first = error.what();
        else
          EXPECT_EQ(first, error.what());
      }
    }
    ASSERT_NE(first, "");
    fail(Fault::Comm, first);
  });
  expect_all_threw(ending, {fmt::format("all_reduce(float32[{}], sum) #7", kLarge),
                            fmt::format("rank {} called all_reduce(float32[{}], sum) #7", odd_one(), kLarge + 1)});
  EXPECT_LT(ending.after_s, 10);  // moves up to 8 x 28 MiB first
}

// More works than a rank remembers having issued.
TEST_P(Failure, FarBehind) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    if (group.rank() == odd_one()) return all_reduce(group, 20'000);
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back(ones(20'001));
      works.push_back(group.all_reduce_(tensors.back(), ReduceOp::Sum, {.lane = Lane::Bulk}));
    }
    for (auto& work : works) work.wait();
  });
  expect_all_threw(ending, {fmt::format("rank {}", odd_one()), "all_reduce(float32[20001], sum) #0", "same order"});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, InAGroupOfRanks) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& world) {
    const auto group = world.duplicate();
    all_reduce(*group, group->rank() == odd_one() ? 11 : 10);
  });
  expect_all_threw(ending, {"float32[10]", fmt::format("rank {} called all_reduce(float32[11], sum) #0", odd_one())});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

// ---- send and receive ----------------------------------------------------------------------------

TEST_P(Failure, MessageOfAnotherSizeOrType) {
  for (const std::int64_t count : {std::int64_t{10}, kLarge}) {
    for (const auto type : {at::kFloat, at::kInt}) {
      const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
        at::Tensor tensor = ones(count);
        if (group.rank() == odd_one()) group.send(tensor, 0).wait();
        at::Tensor other = ones(type == at::kFloat ? count - 1 : count, type);
        if (group.rank() == 0) group.recv_(other, odd_one()).wait();
        group.barrier();
      });
      expect_all_threw(ending,
                       {fmt::format("rank 0 receives {}[{}]", name_of(type), type == at::kFloat ? count - 1 : count),
                        fmt::format("rank {} sent float32[{}]", odd_one(), count)});
      EXPECT_LT(ending.after_s, kDisagreement_s);
    }
  }
}

// Between hosts a message may still be under way when its sender has ended: only the time-out tells.
TEST_P(Failure, ReceiveFromARankThatEnded) {
  Ranks ranks = GetParam();
  if (!ranks.hosts.empty()) ranks.timeout_s = 0.5;
  const Ending ending = ending_of(ranks, [&](Communicator& group) {
    at::Tensor tensor = ones(10);
    if (group.rank() == 0)
      group.recv_(tensor, odd_one()).wait();
    else if (group.rank() != odd_one())
      group.barrier();
  });
  for (int rank = 0; rank < odd_one(); ++rank) {
    const auto& text = ending.of_rank[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(has(text, fmt::format("rank {} ", odd_one())) && has(text, "has ended")) << rank << ": " << text;
  }
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, ReceiveThatNobodyAnswers) {
  Ranks ranks = GetParam();
  ranks.timeout_s = 0.5;
  std::atomic<int> ended{0};
  const Ending ending = ending_of(ranks, [&](Communicator& group) {
    const profile::Span span("busy elsewhere");
    at::Tensor tensor = ones(10);
    if (group.rank() == 0) {
      try {
        group.recv_(tensor, odd_one()).wait();
      } catch (...) {
        ++ended;
        throw;
      }
    }
    while (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  EXPECT_TRUE(has(ending.thrown, "rank 0 has waited 0.") &&
              has(ending.thrown, fmt::format("recv(float32[10], from {})", odd_one())) &&
              has(ending.thrown, fmt::format("rank {} ", odd_one())))
      << ending.thrown;
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

// ---- ranks that end, throw, or stay away ---------------------------------------------------------

TEST_P(Failure, RankThatEndsEarly) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    all_reduce(group, 10);
    if (group.rank() != odd_one()) all_reduce(group, kLarge);
  });
  EXPECT_TRUE(has(ending.thrown, fmt::format("rank {} has ended", odd_one())) &&
              has(ending.thrown, all_reduce_text(kLarge)))
      << ending.thrown;
  for (int rank = 0; rank < odd_one(); ++rank) EXPECT_EQ(ending.of_rank[static_cast<std::size_t>(rank)], ending.thrown);
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, AnErrorReleasesAllAndIsWhatIsThrown) {
  for (const std::int64_t count : {std::int64_t{10}, kLarge}) {
    const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
      if (group.rank() == odd_one()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        fail(Fault::Data, "shard 7 is torn");
      }
      all_reduce(group, count);
    });
    EXPECT_EQ(ending.thrown, "shard 7 is torn");
    expect_all_threw(ending, {"shard 7 is torn"});
    EXPECT_LT(ending.after_s, kDisagreement_s);
  }
}

TEST_P(Failure, AForeignExceptionReleasesAll) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    if (group.rank() == odd_one()) throw std::out_of_range("label 11 of 10");
    all_reduce(group, 10);
  });
  EXPECT_EQ(ending.thrown, "label 11 of 10");
  expect_all_threw(ending, {"label 11 of 10"});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

// An exception in mid transfer, while peers read and write this rank's memory.
TEST_P(Failure, AnErrorInTheMiddleOfLargeWorks) {
  for (int round = 0; round < 5; ++round) {
    double deed_s = 0;
    const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
      for (int i = 0;; ++i) {
        at::Tensor large = ones(kLarge), other = ones(kLarge);
        Work work = group.all_reduce_(large, ReduceOp::Sum);
        Work more = group.all_reduce_(other, ReduceOp::Sum);
        if (group.rank() == odd_one() && i == 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
          deed_s = now_s();
          fail(Fault::Data, "shard 7 is torn");
        }
        work.wait();
        more.wait();
      }
    });
    EXPECT_EQ(ending.thrown, "shard 7 is torn");
    expect_all_threw(ending, {"shard 7 is torn"});
    EXPECT_LT(now_s() - deed_s, kDisagreement_s);
  }
}

TEST_P(Failure, TimeOutNamesTheMissingRankAndItsSpan) {
  for (const std::int64_t count : {std::int64_t{10}, kLarge}) {
    Ranks ranks = GetParam();
    ranks.timeout_s = 0.6;
    std::atomic<int> released{0};
    const Ending ending = ending_of(ranks, [&](Communicator& group) {
      all_reduce(group, 10);
      if (group.rank() == odd_one()) {
        const profile::Span span("load batch");
        while (released < group.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return;
      }
      try {
        all_reduce(group, count);
      } catch (const Error&) {
        ++released;
        throw;
      }
    });
    EXPECT_TRUE(has(ending.thrown, " has waited 0.") && has(ending.thrown, all_reduce_text(count)) &&
                has(ending.thrown, fmt::format("rank {} ", odd_one())) &&
                has(ending.thrown, "is missing, in span 'load batch' for "))
        << ending.thrown;
    for (int rank = 0; rank < odd_one(); ++rank) {
      EXPECT_TRUE(has(ending.of_rank[static_cast<std::size_t>(rank)], "in span 'load batch' for ")) << rank;
    }
    EXPECT_LT(ending.after_s, 0.6 + kDisagreement_s);
  }
}

// Only a wait for a collective is limited, not the time until the last rank ends.
// The communication thread carries all communicators: one that goes on must not hide one that hangs.
TEST_P(Failure, TimeOutBesideOtherTraffic) {
  Ranks ranks = GetParam();
  ranks.timeout_s = 1;
  const Ending ending = ending_of(ranks, [&](Communicator& group) {
    const auto other = group.duplicate();
    at::Tensor awaited = ones(kLarge), traffic = ones(kLarge);
    Work hangs;
    if (group.rank() != odd_one()) hangs = other->all_reduce_(awaited, ReduceOp::Sum, {.name = "awaited"});
    for (const double end_s = now_s() + 10; now_s() < end_s;) group.all_reduce_(traffic, ReduceOp::Max).wait();
  });
  expect_all_threw(ending, {"'awaited'", fmt::format("rank {} ", odd_one())});
  EXPECT_LT(ending.after_s, 1 + kDisagreement_s);
}

TEST_P(Failure, SlowEndIsNone) {
  Ranks ranks = GetParam();
  ranks.timeout_s = 0.3;
  const Ending ending = ending_of(ranks, [&](Communicator& group) {
    all_reduce(group, 10);
    if (group.rank() == odd_one()) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  });
  EXPECT_EQ(ending.thrown, "");
}

// ---- works and communicators that go first -------------------------------------------------------

TEST_P(Failure, DroppedWorkGoesOn) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    at::Tensor tensor = ones(kLarge);
    {
      const Work dropped = group.all_reduce_(tensor, ReduceOp::Sum);
    }
    group.all_reduce_(at::ones({kLarge}), ReduceOp::Sum).wait();
    EXPECT_EQ(tensor[kLarge - 1].item<float>(), static_cast<float>(group.size()));
  });
  EXPECT_EQ(ending.thrown, "");
}

TEST_P(Failure, ErrorOfADroppedWorkIsThatOfTheNextCall) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    at::Tensor tensor = ones(group.rank() == odd_one() ? kLarge + 1 : kLarge);
    {
      const Work dropped = group.all_reduce_(tensor, ReduceOp::Sum);
    }
    all_reduce(group, 10);
    all_reduce(group, kLarge);
  });
  expect_all_threw(ending, {fmt::format("float32[{}]", kLarge), fmt::format("float32[{}]", kLarge + 1)});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, DestroyingACommunicatorFinishesItsWork) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& world) {
    at::Tensor tensor = ones(kLarge);
    {
      const auto group = world.duplicate();
      const Work dropped = group->all_reduce_(tensor, ReduceOp::Sum);
    }
    EXPECT_EQ(tensor[0].item<float>(), static_cast<float>(world.size()));
  });
  EXPECT_EQ(ending.thrown, "");
}

TEST_P(Failure, DestroyingACommunicatorThatDisagrees) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& world) {
    at::Tensor tensor = ones(world.rank() == odd_one() ? kLarge + 1 : kLarge);
    {
      const auto group = world.duplicate();
      const Work dropped = group->all_reduce_(tensor, ReduceOp::Sum);
    }
    world.barrier();
  });
  expect_all_threw(ending, {fmt::format("float32[{}]", kLarge), fmt::format("float32[{}]", kLarge + 1)});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

TEST_P(Failure, UnwindingDropsWorkThatNobodyJoins) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& world) {
    if (world.rank() == 0) {
      at::Tensor tensor = ones(kLarge);
      const auto group = world.duplicate();
      const Work never = group->all_reduce_(tensor, ReduceOp::Sum);
      fail(Fault::Data, "shard 7 is torn");
    }
    const auto group = world.duplicate();
    world.barrier();
  });
  EXPECT_EQ(ending.thrown, "shard 7 is torn");
  expect_all_threw(ending, {"shard 7 is torn"});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

// After an error nothing works any more, and says why.
TEST_P(Failure, AWorkThatFailedFailsAgain) {
  ending_of(GetParam(), [&](Communicator& group) {
    at::Tensor tensor = ones(kLarge);
    if (group.rank() == odd_one()) fail(Fault::Data, "shard 7 is torn");
    Work work = group.all_reduce_(tensor, ReduceOp::Sum);
    EXPECT_THROW(work.wait(), Error);
    EXPECT_TRUE(work.done());
    EXPECT_THROW(work.wait(), Error);
  });
}

TEST_P(Failure, LaterCallsThrowTheFirstCause) {
  const Ending ending = ending_of(GetParam(), [&](Communicator& group) {
    try {
      if (group.rank() == odd_one()) fail(Fault::Data, "not fatal by itself");
      all_reduce(group, 10);
    } catch (const Error&) {
      if (group.rank() == odd_one()) throw;
    }
    all_reduce(group, 10);
  });
  EXPECT_EQ(ending.thrown, "not fatal by itself");
  expect_all_threw(ending, {"not fatal by itself"});
  EXPECT_LT(ending.after_s, kDisagreement_s);
}

// The network may write into it as long as the process lives.
TEST(FailedCollective, OfAProcessKeepsItsTensorForEver) {
  if (testing::launched()) GTEST_SKIP() << "its ranks are threads";
  const at::Tensor tensor = ones(10);
  {
    const FileDescriptor file = Segment::create(1);
    const Endpoint endpoint(Segment::attach(file.get()), 0, EndpointOptions{0, {0}, 1, {}, false});
    endpoint.outlive(tensor);
  }
  EXPECT_EQ(tensor.use_count(), 2U);
}

}  // namespace
}  // namespace lockstep::comm
