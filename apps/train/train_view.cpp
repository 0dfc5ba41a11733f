#include "train/train_view.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "lockstep/core/text.h"
#include "progress.h"
#include "with_commas.h"

namespace lockstep::apps {
namespace {

constexpr double kSmoothing = 0.95;

/// A row for each class: how often it was taken for each; "" if nobody counts that, or of too many classes.
std::string matrix_of(const train::Figures& figures) {
  std::vector<double> cells;
  for (const auto& [name, value] : figures) {
    if (name.starts_with(train::kConfusion)) cells.push_back(value);
  }
  const auto classes = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(cells.size()))));
  constexpr std::size_t kMost = 12;
  if (classes == 0 || classes > kMost) return "";
  std::string text = "rows are classes, columns what they were taken for:";
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    if (cell % classes == 0) text += fmt::format("\n{:>4}:", cell / classes);
    text += fmt::format(" {:>7.0f}", cells[cell]);
  }
  return text;
}

/// The first that has room, else what of the last has.
std::string longest_of(const std::vector<std::string>& lines, std::size_t room) {
  const auto found =
      std::find_if(lines.begin(), lines.end(), [room](const std::string& line) { return line.size() <= room; });
  return found != lines.end() ? *found : lines.back().substr(0, room);
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
  samples_ += report.samples;
  const double keep = report.step == info_.first_step + 1 ? 0 : kSmoothing;
  loss_ = keep * loss_ + (1 - keep) * report.loss;
  imbalance_ = keep * imbalance_ + (1 - keep) * report.imbalance;
  const auto now = Clock::now();
  const auto pause =
      terminal() ? Clock::duration(std::chrono::milliseconds(100)) : Clock::duration(std::chrono::seconds(10));
  if (now - drawn_ < pause) return;
  drawn_ = now;
  const auto done = static_cast<double>(report.step - info_.first_step);
  const auto left = static_cast<double>(info_.length.steps - report.step);
  const double rate = done / report.steps_s;
  const std::string epoch = fmt::format("epoch {:.2f}  ", report.epochs),
                    place = fmt::format("step {} of {}  loss {:.4f}  ", report.step, info_.length.steps, loss_),
                    speed = with_commas(std::llround(static_cast<double>(samples_) / report.steps_s)) + " samples/s  ",
                    slowest = info_.ranks > 1 ? fmt::format("slowest rank +{:.0f} %  ", 100 * (imbalance_ - 1)) : "",
                    end = format_seconds(left / rate) + " left";
  if (!terminal()) return say(epoch + place + speed + slowest + end);
  const std::string bar = bar_of(static_cast<double>(report.step) / static_cast<double>(info_.length.steps)) + " ";
  // A line that wraps could not be drawn over. Lines of ranks are passed on when they end; this one ends where it
  // began.
  const auto room = static_cast<std::size_t>(width_ - 1);
  fmt::print(stderr, "\033[K{}\r",
             longest_of({bar + epoch + place + speed + slowest + end, epoch + place + speed + slowest + end,
                         place + speed + slowest + end, place + speed + end, place + end},
                        room));
  std::fflush(stderr);
}

void TrainView::on_evaluation(const train::Evaluation& evaluation) {
  std::string text =
      fmt::format("epoch {}  {} of {} samples:", evaluation.epoch, evaluation.of, with_commas(evaluation.samples));
  for (const auto& [name, value] : evaluation.figures) {
    if (name.starts_with(train::kConfusion)) continue;
    text += name == "accuracy" || name.starts_with("top") ? fmt::format("  {} {:.2f} %", name, 100 * value)
                                                          : fmt::format("  {} {:.4f}", name, value);
  }
  say(text);
  if (const auto matrix = matrix_of(evaluation.figures); !matrix.empty()) say(matrix);
}

void TrainView::on_end() {
  if (last_.step == 0) return say(fmt::format("nothing left to do after step {}", with_commas(info_.first_step)));
  say(fmt::format("{} steps in {}, loss {:.4f}; rank 0 waited {:.1f} % of it for other ranks, {:.1f} % for data",
                  with_commas(last_.step - info_.first_step), format_seconds(last_.steps_s), loss_,
                  share(last_.waited_for_ranks_s, last_.steps_s), share(last_.waited_for_data_s, last_.steps_s)));
}

void TrainView::say(const std::string& line) {
  fmt::print(stderr, "{}{}\n", terminal() ? "\033[K" : "", line);
  std::fflush(stderr);
}

}  // namespace lockstep::apps
