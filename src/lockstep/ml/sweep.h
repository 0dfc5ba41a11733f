// lockstep/ml/sweep.h
//
// How far a pass over rows is, for whoever shows it: of data larger than memory one may take
// hours. A table has an observer, and what passes over its rows tells it.
#pragma once

#include <cstdint>

namespace lockstep::ml {

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  /// A pass over so many rows of this rank begins; it ends before the next one begins.
  virtual void begin(const char* name, std::int64_t rows) = 0;
  /// So many more of them are done. Called from any thread, for some hundreds of rows at a time.
  virtual void add(std::int64_t rows) = 0;
  virtual void end() = 0;
};

/// One pass. Nobody need look: then the observer is null.
class Sweep {
 public:
  Sweep(SweepObserver* observer, const char* name, std::int64_t rows) : observer_(observer) {
    if (observer_ != nullptr) observer_->begin(name, rows);
  }
  ~Sweep() {
    if (observer_ != nullptr) observer_->end();
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  void add(std::int64_t rows) const {
    if (observer_ != nullptr) observer_->add(rows);
  }

 private:
  SweepObserver* observer_;
};

}  // namespace lockstep::ml
