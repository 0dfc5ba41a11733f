#include "lockstep/train/event_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/core/testing.h"
#include "lockstep/data/file_bytes.h"
#include "lockstep/data/record_frames.h"
#include "lockstep/train/event_observer.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

class Events : public testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/events.out.tfevents.lockstep"; }
  /// Records that are whole, the head included.
  int records() const {
    std::ifstream in(path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    data::FrameReader frames(data::as_bytes(text));
    int count = 0;
    while (frames.next()) ++count;
    return count;
  }
  void write(std::int64_t last_step, std::int64_t from, std::int64_t to) const {
    EventFile events(folder_.path(), last_step);
    for (std::int64_t step = from; step <= to; ++step) events.scalar("loss", step, 1.0 / static_cast<double>(step));
    events.flush();
  }

  const test::TemporaryFolder folder_;
};

TEST_F(Events, GoOnWhereTheRunDoes) {
  write(0, 1, 10);
  EXPECT_EQ(records(), 11);
  write(6, 7, 8);
  EXPECT_EQ(records(), 9);
}

TEST_F(Events, LoseHalfARecord) {
  write(0, 1, 10);
  fs::resize_file(path(), fs::file_size(path()) - 3);
  write(10, 10, 12);
  EXPECT_EQ(records(), 13);
  std::ofstream(path()) << "no events at all";
  write(0, 1, 1);
  EXPECT_EQ(records(), 2);
}

TEST_F(Events, AreReadAgain) {
  EXPECT_TRUE(read_scalars(folder_.path()).empty());
  write(0, 1, 3);
  {
    EventFile events(folder_.path(), 3);
    events.scalar("accuracy", 3, 0.5);
    events.histogram("loss", 3, at::linspace(-1, 1, 10));
    events.flush();
  }
  std::ofstream(path(), std::ios::binary | std::ios::app) << "half a record";
  const Scalars expected{{"loss", {{1, 1.0}, {2, 0.5}, {3, 1.0F / 3}}}, {"accuracy", {{3, 0.5}}}};
  EXPECT_EQ(read_scalars(folder_.path()), expected);
}

TEST_F(Events, HoldHistograms) {
  {
    EventFile events(folder_.path(), 0);
    events.histogram("weights", 1, at::linspace(-1, 1, 1000));
    events.histogram("nothing", 1, at::empty({0}));
    events.histogram("broken", 1, at::full({3}, NAN));
    events.flush();
  }
  EXPECT_EQ(records(), 2);  // of numbers that are none there is nothing to draw
}

TEST_F(Events, HaveCurvesOfRunsWithoutEnd) {
  const torch::nn::Module model;
  EventObserver observer(folder_.path(), &model);
  observer.on_start({.length = {std::int64_t{1} << 60, 7}});
  for (std::int64_t step = 1; step <= 300; ++step)
    observer.on_step({.step = step, .samples = 1, .seconds = 1, .steps_s = 1});
  observer.on_end();
  EXPECT_EQ(records(), 1 + 3 * 5);  // the head, and five curves after every 100 steps
}

}  // namespace
}  // namespace lockstep::train
