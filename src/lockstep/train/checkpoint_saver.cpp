#include "lockstep/train/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/profile/span.h"

namespace lockstep::train {
namespace {

/// A rank's share: whole tensors, nearly equal in bytes, copied so that the run may go on.
parallel::Parameters share_of(const parallel::Parameters& all, const comm::Communicator& group) {
  std::size_t total = 0, before = 0;
  for (const auto& parameter : all) total += parameter.tensor.nbytes();
  parallel::Parameters mine;
  for (const auto& [name, tensor] : all) {
    // By its middle, so that no tensor is between two ranks.
    const std::size_t middle = before + tensor.nbytes() / 2;
    const auto writer =
        static_cast<int>(middle * static_cast<std::size_t>(group.size()) / std::max<std::size_t>(total, 1));
    before += tensor.nbytes();
    if (std::min(writer, group.size() - 1) == group.rank())
      mine.push_back({name, tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true)});
  }
  return mine;
}

}  // namespace

CheckpointSaver::CheckpointSaver(const CheckpointSettings& settings, comm::Communicator& group)
    : settings_(settings), group_(group), folder_(settings.folder) {
  if (!settings.folder.empty() && group.rank() == 0) folder_.drop_unfinished();
}

CheckpointSaver::~CheckpointSaver() {
  if (writing_.valid()) writing_.wait();
}

bool CheckpointSaver::wanted_after(std::int64_t step, bool end_of_epoch) const noexcept {
  return settings_.every_steps > 0 ? step % settings_.every_steps == 0 : end_of_epoch;
}

void CheckpointSaver::begin(const Checkpoint& now) {
  if (under_way()) (void)finish();
  const profile::Span span("copy for a checkpoint");
  step_ = now.step;
  facts_ = now.facts;
  writing_ = std::async(std::launch::async, [this, step = now.step, mine = share_of(now.tensors, group_)] {
    try {
      return folder_.write_part(step, group_.rank(), mine).dump();
    } catch (...) {
      log().warn("the checkpoint of step {} is not written: {}", step, current_error().what());
      return std::string();
    }
  });
}

bool CheckpointSaver::written() const {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

bool CheckpointSaver::finish() {
  const profile::Span span("complete a checkpoint");
  const auto parts = group_.gather_bytes(writing_.get());
  const bool whole = std::find(parts.begin(), parts.end(), "") == parts.end();
  if (group_.rank() != 0) return !group_.broadcast_bytes("", 0).empty();
  const bool done = whole && complete(parts);
  if (!done) folder_.drop_unfinished(step_);
  return !group_.broadcast_bytes(done ? "done" : "", 0).empty();
}

bool CheckpointSaver::complete(const std::vector<std::string>& parts) {
  std::vector<nlohmann::json> entries;
  for (const auto& part : parts) entries.push_back(nlohmann::json::parse(part));
  try {
    folder_.complete(step_, facts_, entries);
    prune();
    return true;
  } catch (const Error& error) {
    log().warn("the checkpoint of step {} is not written: {}", step_, error.what());
    return false;
  }
}

void CheckpointSaver::judge(std::int64_t step, const Figures& figures) {
  const double figure = figure_named(settings_.best_by, figures, "checkpoints.best_by");
  judged_[step] = is_better_low(settings_.best_by) ? figure : -figure;
}

void CheckpointSaver::prune() {
  const auto steps = folder_.steps();
  std::set<std::int64_t> kept;
  const auto last = std::min<std::ptrdiff_t>(settings_.keep_last, std::ssize(steps));
  kept.insert(steps.end() - std::max<std::ptrdiff_t>(last, 1), steps.end());
  std::vector<std::pair<double, std::int64_t>> best;
  for (const auto& [step, figure] : judged_) {
    if (std::binary_search(steps.begin(), steps.end(), step)) best.emplace_back(figure, step);
  }
  std::sort(best.begin(), best.end());
  for (std::ptrdiff_t i = 0; i < std::min<std::ptrdiff_t>(settings_.keep_best, std::ssize(best)); ++i) {
    kept.insert(best[static_cast<std::size_t>(i)].second);
  }
  for (const std::int64_t step : steps) {
    if (!kept.contains(step)) folder_.remove(step);
  }
}

}  // namespace lockstep::train
