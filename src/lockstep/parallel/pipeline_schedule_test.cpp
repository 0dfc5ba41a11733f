// Every schedule over a range of shapes: valid, as good as its formula, within its memory; and what is said of wrong
// ones.
#include "lockstep/parallel/pipeline_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/core/testing.h"

namespace lockstep::parallel {
namespace {

using test::message_of;
using enum PipelineWork;

std::vector<PipelineSchedule> schedules_named(const std::string& name) {
  std::vector<PipelineSchedule> all;
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 16; ++micro_batches) {
      if (name != "interleaved") {
        all.push_back(make_pipeline_schedule(name, stages, micro_batches, 1));
      } else if (micro_batches % stages == 0) {
        for (const int chunks : {2, 3}) all.push_back(make_pipeline_schedule(name, stages, micro_batches, chunks));
      }
    }
  }
  return all;
}

std::string shape_of(const PipelineSchedule& schedule) {
  return fmt::format("{} stages, {} micro-batches, {} chunks", schedule.stages, schedule.micro_batches,
                     schedule.chunks);
}

const std::vector<PipelineAction>& list(const PipelineSchedule& schedule, int stage) {
  return schedule.of_stage.at(static_cast<std::size_t>(stage));
}

class EverySchedule : public testing::TestWithParam<std::string> {
 protected:
  const std::vector<PipelineSchedule> schedules_ = schedules_named(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Names, EverySchedule, testing::ValuesIn(PipelineScheduleRegistry::instance().names()),
                         [](const auto& instance) { return instance.param; });

// Making one checks it, so a wrong one does not get here.
TEST_P(EverySchedule, HasAllShapes) {
  for (const auto& schedule : schedules_) {
    SCOPED_TRACE(shape_of(schedule));
    EXPECT_EQ(schedule.name, GetParam());
    EXPECT_EQ(schedule.of_stage.size(), static_cast<std::size_t>(schedule.stages));
    EXPECT_NO_THROW(check(schedule));
  }
}

TEST_P(EverySchedule, IdlesAsItsFormulaSays) {
  for (const auto& schedule : schedules_) {
    SCOPED_TRACE(shape_of(schedule));
    for (const PipelineCosts& costs : {PipelineCosts{}, PipelineCosts{1, 2, 1}, PipelineCosts{1, 1.25, 0.75},
                                       PipelineCosts{0.5, 1, 3}, PipelineCosts{5, 1, 0.5}, PipelineCosts{2, 1, 0}}) {
      EXPECT_NEAR(bubble_share(timeline(schedule, costs)), ideal_bubble_share(schedule, costs), 1e-12)
          << costs.forward << " " << costs.input_gradient << " " << costs.weight_gradient;
    }
  }
}

TEST_P(EverySchedule, AddsGradientsUpInTheOrderOfMicroBatches) {
  for (const auto& schedule : schedules_) {
    SCOPED_TRACE(shape_of(schedule));
    for (int stage = 0; stage < schedule.stages; ++stage) {
      std::map<int, int> next_of_chunk;
      for (const auto& [work, micro_batch, chunk] : list(schedule, stage)) {
        if (work == Backward || work == WeightGradient) {
          EXPECT_EQ(micro_batch, next_of_chunk[chunk]++);
        }
      }
    }
  }
}

// Stages that know only their own list and the messages to come on each channel, in order.
TEST_P(EverySchedule, RunsOnMessagesReceivedInOrder) {
  for (const auto& schedule : schedules_) {
    SCOPED_TRACE(shape_of(schedule));
    const int last = schedule.stages * schedule.chunks - 1;
    std::map<std::pair<int, int>, std::size_t> sent;  // by sender and receiver: how many of messages()
    std::map<std::pair<int, int>, std::vector<PipelineMessage>> channels;
    for (int from = 0; from < schedule.stages; ++from) {
      for (int to = 0; to < schedule.stages; ++to) channels[{from, to}] = messages(schedule, from, to);
    }
    std::vector<std::size_t> places(schedule.of_stage.size());
    const auto arrived = [&](int from, int to, const PipelineMessage& message) {
      const auto& channel = channels.at({from, to});
      const auto end = channel.begin() + static_cast<std::ptrdiff_t>(sent[{from, to}]);
      return from == to || std::find(channel.begin(), end, message) != end;
    };
    const auto send = [&](int from, int to, const PipelineMessage& message) {
      if (from == to) return;
      const auto& channel = channels.at({from, to});
      const std::size_t number = sent[{from, to}]++;
      ASSERT_LT(number, channel.size());
      EXPECT_EQ(channel[number], message);
    };
    for (bool moves = true; moves;) {
      moves = false;
      for (int stage = 0; stage < schedule.stages; ++stage) {
        const int before = (stage + schedule.stages - 1) % schedule.stages, after = (stage + 1) % schedule.stages;
        for (auto& place = places[static_cast<std::size_t>(stage)]; place < list(schedule, stage).size(); ++place) {
          const auto& [work, micro_batch, chunk] = list(schedule, stage)[place];
          const int here = chunk * schedule.stages + stage;
          const bool gradient = work == Backward || work == InputGradient;
          if (work == Forward && here > 0 && !arrived(before, stage, {false, micro_batch, chunk})) break;
          if (gradient && here < last && !arrived(after, stage, {true, micro_batch, chunk})) break;
          if (work == Forward && here < last) send(stage, after, {false, micro_batch, (here + 1) / schedule.stages});
          if (gradient && here > 0) send(stage, before, {true, micro_batch, (here - 1) / schedule.stages});
          moves = true;
        }
      }
    }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      EXPECT_EQ(places[static_cast<std::size_t>(stage)], list(schedule, stage).size()) << "stage " << stage;
    }
    for (const auto& [ends, channel] : channels) EXPECT_EQ(sent[ends], channel.size());
  }
}

TEST(PipelineSchedule, HoldsTheKnownNumberOfActivations) {
  for (const auto& name : PipelineScheduleRegistry::instance().names()) {
    for (const auto& schedule : schedules_named(name)) {
      const int p = schedule.stages, m = schedule.micro_batches, v = schedule.chunks;
      for (int stage = 0; stage < p; ++stage) {
        const std::map<std::string, int> known{{"gpipe", m},
                                               {"1f1b", std::min(p - stage, m)},
                                               {"zero_bubble", std::min(p, m)},  // that of the first stage of 1f1b
                                               {"interleaved", std::min((v - 1) * p + 2 * (p - 1 - stage) + 1, m * v)}};
        EXPECT_EQ(peak_in_flight(schedule, stage), known.at(name))
            << name << ", " << shape_of(schedule) << ", stage " << stage;
      }
    }
  }
}

// The figures of the papers for four stages and eight micro-batches whose three parts take equally long.
TEST(PipelineSchedule, IdlesAsPublished) {
  const auto bubble = [](const std::string& name, int chunks) {
    return bubble_share(timeline(make_pipeline_schedule(name, 4, 8, chunks)));
  };
  EXPECT_NEAR(bubble("gpipe", 1), 3. / 11, 1e-12);
  EXPECT_NEAR(bubble("1f1b", 1), 3. / 11, 1e-12);
  EXPECT_NEAR(bubble("interleaved", 2), 3. / 19, 1e-12);
  EXPECT_NEAR(bubble("zero_bubble", 1), 3. / 27, 1e-12);
}

TEST(PipelineSchedule, SendsBothKindsToTheOnlyOtherStage) {
  const std::vector<PipelineMessage> expected{{false, 0, 0}, {false, 1, 0}, {false, 0, 1},
                                              {false, 1, 1}, {true, 0, 0},  {true, 1, 0}};
  EXPECT_EQ(messages(make_pipeline_schedule("interleaved", 2, 2, 2), 0, 1), expected);
}

TEST(PipelineSchedule, SendsNothingToItselfOrBeyondItsNeighbours) {
  EXPECT_TRUE(messages(make_pipeline_schedule("interleaved", 1, 2, 2), 0, 0).empty());
  EXPECT_TRUE(messages(make_pipeline_schedule("1f1b", 4, 2, 1), 0, 2).empty());
  EXPECT_TRUE(messages(make_pipeline_schedule("1f1b", 4, 2, 1), 3, 0).empty());
}

TEST(PipelineSchedule, IsATable) {
  EXPECT_EQ(text(make_pipeline_schedule("1f1b", 4, 4, 1)),
            "stage 0 | F0 F1 F2 F3 .  .  .  .  .  .  B0--- .  B1--- .  B2--- .  B3---\n"
            "stage 1 | .  F0 F1 F2 .  .  .  .  B0--- F3 B1--- .  B2--- .  B3--- .  .\n"
            "stage 2 | .  .  F0 F1 .  .  B0--- F2 B1--- F3 B2--- .  B3--- .  .  .  .\n"
            "stage 3 | .  .  .  F0 B0--- F1 B1--- F2 B2--- F3 B3--- .  .  .  .  .  .\n");
}

TEST(PipelineSchedule, ShowsChunksInItsTable) {
  EXPECT_EQ(text(make_pipeline_schedule("interleaved", 2, 2, 2)),
            "stage 0 | F0.0 F1.0 F0.1 F1.1 .    .    B0.1----- .    B1.1----- B0.0----- B1.0-----\n"
            "stage 1 | .    F0.0 F1.0 F0.1 B0.1----- F1.1 B1.1----- B0.0----- B1.0----- .    .\n");
}

TEST(PipelineSchedule, SaysWhyThereIsNone) {
  EXPECT_EQ(message_of([] { make_pipeline_schedule("1f2b", 4, 8, 1); }),
            "unknown pipeline schedule '1f2b'; did you mean '1f1b'?");
  EXPECT_EQ(message_of([] { make_pipeline_schedule("interleaved", 4, 6, 2); }),
            "pipeline schedule 'interleaved' (stages 4, micro-batches 6, chunks 2): micro-batches must be "
            "a multiple of the stages; the next one is 8");
  EXPECT_EQ(message_of([] { make_pipeline_schedule("interleaved", 4, 8, 1); }),
            "pipeline schedule 'interleaved' (stages 4, micro-batches 8, chunks 1): it is for 2 or more "
            "chunks per stage");
  for (const std::string name : {"gpipe", "1f1b", "zero_bubble"}) {
    EXPECT_EQ(message_of([&] { make_pipeline_schedule(name, 4, 8, 2); }),
              "pipeline schedule '" + name + "' (stages 4, micro-batches 8, chunks 2): it is for 1 chunk per stage");
  }
  EXPECT_EQ(message_of([] { make_pipeline_schedule("gpipe", 4, 0, 1); }),
            "pipeline schedule 'gpipe' (stages 4, micro-batches 0, chunks 1): each number must be at "
            "least 1");
  EXPECT_EQ(message_of([] { make_pipeline_schedule("interleaved", 4, 1'500'000'000, 2); }),
            "pipeline schedule 'interleaved' (stages 4, micro-batches 1500000000, chunks 2): that is 12000000000 "
            "forwards, and 4194304 are the most");
}

/// Of two stages and one chunk, with as many micro-batches as needed.
PipelineSchedule by_hand(int micro_batches, std::vector<PipelineAction> first, std::vector<PipelineAction> second) {
  return {{2, micro_batches, 1}, "by hand", {std::move(first), std::move(second)}};
}
const std::string kOfTwo = "pipeline schedule 'by hand' (stages 2, micro-batches 2, chunks 1): ";
const std::vector<PipelineAction> kRight{{Forward, 0, 0}, {Forward, 1, 0}, {Backward, 0, 0}, {Backward, 1, 0}};

TEST(PipelineCheck, AcceptsGradientsApart) {
  EXPECT_NO_THROW(check(by_hand(2, kRight, kRight)));
  EXPECT_NO_THROW(check(by_hand(1, {{Forward, 0, 0}, {Backward, 0, 0}},
                                {{Forward, 0, 0}, {InputGradient, 0, 0}, {WeightGradient, 0, 0}})));
}

TEST(PipelineCheck, FindsAMissingAction) {
  auto list = kRight;
  list.erase(list.begin() + 2);
  EXPECT_EQ(
      message_of([&] { check(by_hand(2, kRight, list)); }),
      kOfTwo + "the list of stage 1 has 1 F0, 0 B0, 0 I0 and 0 W0, instead of 1 F0 and either 1 B0 or 1 I0 and 1 W0");
}

TEST(PipelineCheck, FindsADoubledAction) {
  auto list = kRight;
  list.push_back({Forward, 1, 0});
  EXPECT_EQ(
      message_of([&] { check(by_hand(2, list, kRight)); }),
      kOfTwo + "the list of stage 0 has 2 F1, 1 B1, 0 I1 and 0 W1, instead of 1 F1 and either 1 B1 or 1 I1 and 1 W1");
}

TEST(PipelineCheck, FindsGradientsBothAtOnceAndApart) {
  auto list = kRight;
  list.push_back({WeightGradient, 1, 0});
  EXPECT_EQ(
      message_of([&] { check(by_hand(2, list, kRight)); }),
      kOfTwo + "the list of stage 0 has 1 F1, 1 B1, 0 I1 and 1 W1, instead of 1 F1 and either 1 B1 or 1 I1 and 1 W1");
}

TEST(PipelineCheck, FindsWhatIsOutOfRange) {
  auto list = kRight;
  list.push_back({Forward, 2, 0});
  EXPECT_EQ(message_of([&] { check(by_hand(2, list, kRight)); }),
            kOfTwo + "stage 0 has F2, which is of micro-batch 2 and chunk 0");
  EXPECT_EQ(message_of([&] { check({{2, 2, 1}, "by hand", {kRight}}); }), kOfTwo + "it has 1 lists");
  EXPECT_EQ(message_of([&] { messages(by_hand(2, kRight, kRight), 0, 2); }),
            kOfTwo + "there is no stage 2 among its 2 lists");
  EXPECT_EQ(message_of([&] { peak_in_flight(by_hand(2, kRight, kRight), -1); }),
            kOfTwo + "there is no stage -1 among its 2 lists");
}

TEST(PipelineCheck, ShowsStagesThatWaitForEachOther) {
  EXPECT_EQ(message_of([] {
              check(by_hand(2, {{Forward, 0, 0}, {Backward, 0, 0}, {Forward, 1, 0}, {Backward, 1, 0}},
                            {{Forward, 0, 0}, {Forward, 1, 0}, {Backward, 0, 0}, {Backward, 1, 0}}));
            }),
            kOfTwo +
                "it cannot end: stage 0 waits before B0, action 2 of 4, for B0 of stage 1; stage 1 waits before F1, "
                "action 2 of 4, for F1 of stage 0");
}

TEST(PipelineCheck, ShowsAStageThatWaitsForItself) {
  EXPECT_EQ(message_of([] {
              check(by_hand(
                  2, kRight,
                  {{Forward, 0, 0}, {Forward, 1, 0}, {WeightGradient, 0, 0}, {InputGradient, 0, 0}, {Backward, 1, 0}}));
            }),
            kOfTwo + "it cannot end: stage 1 waits before W0, action 3 of 5, for I0 of stage 1");
}

TEST(PipelineCosts, AreTimes) {
  const auto schedule = make_pipeline_schedule("1f1b", 2, 2, 1);
  const std::string rest = " and weight gradient 0: each must be a time, and one above 0";
  EXPECT_EQ(message_of([&] { timeline(schedule, {0, 0, 0}); }), "costs of forward 0, input gradient 0" + rest);
  EXPECT_EQ(message_of([&] { ideal_bubble_share(schedule, {1, -2, 0}); }),
            "costs of forward 1, input gradient -2" + rest);
}

}  // namespace
}  // namespace lockstep::parallel
