#include "train/train_view.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "lockstep/core/text.h"
#include "progress.h"

namespace lockstep::apps {
namespace {

constexpr double kSmoothing = 0.95;

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto place = static_cast<std::ptrdiff_t>(text.size()) - 3; place > 0; place -= 3) {
    text.insert(static_cast<std::size_t>(place), ",");
  }
  return text;
}

double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

}  // namespace

void TrainView::on_start(const train::RunInfo& info) {
  info_ = info;
  say(fmt::format("{} parameters, {} samples, batches of {}: {} steps", with_commas(info.parameters),
                  with_commas(info.samples), info.batch, with_commas(info.length.steps)));
}

void TrainView::on_step(const train::StepReport& report) {
  last_ = report;
  const double keep = report.step == info_.first_step + 1 ? 0 : kSmoothing;
  loss_ = keep * loss_ + (1 - keep) * report.loss;
  imbalance_ = keep * imbalance_ + (1 - keep) * report.imbalance;
  const auto now = Clock::now();
  const auto pause =
      terminal_ ? Clock::duration(std::chrono::milliseconds(100)) : Clock::duration(std::chrono::seconds(10));
  if (now - drawn_ < pause) return;
  drawn_ = now;
  const auto done = static_cast<double>(report.step - info_.first_step);
  const auto left = static_cast<double>(info_.length.steps - report.step);
  const double rate = done / report.steps_s;
  const std::string text = fmt::format(
      "epoch {:.2f}  step {} of {}  loss {:.4f}  {} samples/s  {}{} left",
      static_cast<double>(report.step) / static_cast<double>(std::max<std::int64_t>(info_.length.steps_of_epoch, 1)),
      report.step, info_.length.steps, loss_,
      with_commas(static_cast<std::int64_t>(rate * static_cast<double>(info_.batch))),
      info_.ranks > 1 ? fmt::format("slowest rank +{:.0f} %  ", 100 * (imbalance_ - 1)) : "",
      format_seconds(left / rate));
  if (!terminal_) return say(text);
  // Lines of ranks are passed on when they end; this one ends where it began.
  const double share_done = static_cast<double>(report.step) / static_cast<double>(info_.length.steps);
  fmt::print(stderr, "\033[K{} {}\r", bar_of(share_done), text);
  std::fflush(stderr);
}

void TrainView::on_evaluation(const train::Evaluation& evaluation) {
  std::string text =
      fmt::format("epoch {}  {} of {} samples:", evaluation.epoch, evaluation.of, with_commas(evaluation.samples));
  constexpr std::size_t kMostShown = 6;
  for (std::size_t i = 0; i < std::min(kMostShown, evaluation.figures.size()); ++i) {
    const auto& [name, value] = evaluation.figures[i];
    text += name == "accuracy" || name.starts_with("top") ? fmt::format("  {} {:.2f} %", name, 100 * value)
                                                          : fmt::format("  {} {:.4f}", name, value);
  }
  say(text);
}

void TrainView::on_end() {
  if (last_.step == 0) return say(fmt::format("nothing left to do after step {}", with_commas(info_.first_step)));
  say(fmt::format("{} steps in {}; rank 0 waited {:.1f} % of it for other ranks, {:.1f} % for data",
                  with_commas(last_.step - info_.first_step), format_seconds(last_.steps_s),
                  share(last_.waited_for_ranks_s, last_.steps_s), share(last_.waited_for_data_s, last_.steps_s)));
}

void TrainView::say(const std::string& line) {
  fmt::print(stderr, "{}{}\n", terminal_ ? "\033[K" : "", line);
  std::fflush(stderr);
}

}  // namespace lockstep::apps
