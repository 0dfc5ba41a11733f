#include "ml/sweep_bar.h"

namespace lockstep::apps {

void SweepBar::begin(const char* name, std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  bar_.emplace(name, "rows", rows);
  begun_ = Clock::now();
  waiting_ = 0;
}

void SweepBar::add(std::int64_t rows) {
  // Shorter passes would only flicker, and hide the bar of whoever makes many of them.
  constexpr std::chrono::seconds kPatience{1};
  const std::lock_guard lock(mutex_);
  waiting_ += rows;
  if (Clock::now() - begun_ < kPatience) return;
  bar_->add(waiting_);
  waiting_ = 0;
}

void SweepBar::end() {
  const std::lock_guard lock(mutex_);
  bar_.reset();
}

}  // namespace lockstep::apps
