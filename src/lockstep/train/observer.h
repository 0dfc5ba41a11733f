// lockstep/train/observer.h
//
// Who watches a run: a progress bar, an event file, a guard. All ranks call all observers
// with the same figures, in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/train/metric.h"
#include "lockstep/train/schedule.h"

namespace lockstep::train {

struct RunInfo {
  RunLength length;
  std::int64_t first_step = 0;            // above 0 after a restart
  std::int64_t samples = 0;               // of an epoch
  std::int64_t batch = 0;                 // of all ranks
  std::int64_t parameters = 0;            // numbers that are trained
  bool validates = false;                 // after every epoch
  std::vector<std::string> figures = {};  // that evaluations will have
  int ranks = 1;
};

/// After a step; sums are over all ranks.
struct StepReport {
  std::int64_t step = 0;  // from 1 on
  std::int64_t epoch = 0;
  double epochs = 0;         // done, with the part of this one
  std::int64_t samples = 0;  // of this step
  double loss = 0;           // mean
  double lr = 0;
  bool skipped = false;  // the weights did not change
  double seconds = 0;
  double imbalance = 1;  // time that the slowest rank has computed, over the mean of all
  // Of this rank, since the start of the run: seconds of steps, and of them waiting for other ranks and for data.
  double steps_s = 0;
  double waited_for_ranks_s = 0;
  double waited_for_data_s = 0;
};

struct Evaluation {
  std::string of;  // "validation" or "test"
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // finished
  std::int64_t samples = 0;
  Figures figures;  // "loss" first
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const Evaluation&) {}
  virtual void on_end() {}
};

}  // namespace lockstep::train
