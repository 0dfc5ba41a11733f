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
    : settings_(settings), group_(group), folder_(settings.folder), best_(settings.best_by) {
  if (!settings.folder.empty() && group.rank() == 0) folder_.drop_unfinished();
}

CheckpointSaver::~CheckpointSaver() {
  if (writing_.valid()) writing_.wait();
}

bool CheckpointSaver::wanted_after(std::int64_t step, bool end_of_epoch) const {
  const bool due = settings_.every_steps > 0 ? step % settings_.every_steps == 0 : end_of_epoch;
  if (due || !end_of_epoch) return due;  // only then is a step judged
  const auto best = best_.best(settings_.keep_best);
  return std::find(best.begin(), best.end(), step) != best.end();
}

void CheckpointSaver::recall(const std::vector<Evaluation>& evaluations) {
  std::vector<std::int64_t> saved;
  if (wanted() && group_.rank() == 0) saved = folder_.steps();
  saved =
      nlohmann::json::parse(group_.broadcast_bytes(nlohmann::json(saved).dump(), 0)).get<std::vector<std::int64_t>>();
  best_.recall(evaluations);
  best_.forget_all_but(saved);
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
  const bool done_here = group_.rank() == 0 && whole && complete(parts);
  if (group_.rank() == 0 && !done_here) folder_.drop_unfinished(step_);
  const bool done = !group_.broadcast_bytes(done_here ? "done" : "", 0).empty();
  if (!done) best_.forget(step_);
  return done;
}

bool CheckpointSaver::complete(const std::vector<std::string>& parts) {
  try {
    std::vector<nlohmann::json> entries;
    for (const auto& part : parts) entries.push_back(nlohmann::json::parse(part));
    folder_.complete(step_, facts_, entries);
  } catch (...) {
    log().warn("the checkpoint of step {} is not written: {}", step_, current_error().what());
    return false;
  }
  try {
    prune();
  } catch (...) {
    log().warn("older checkpoints stay: {}", current_error().what());
  }
  return true;
}

void CheckpointSaver::prune() {
  const auto all = folder_.steps();
  // What lies above is spoilt, or of a run that came further before: it is not the last of this one.
  const std::vector<std::int64_t> own(all.begin(), std::upper_bound(all.begin(), all.end(), step_));
  const auto last = std::clamp<std::ptrdiff_t>(settings_.keep_last, 1, std::ssize(own));
  std::set<std::int64_t> kept(own.end() - last, own.end());
  for (const std::int64_t step : best_.best(settings_.keep_best, own)) kept.insert(step);
  for (const std::int64_t step : all) {
    if (!kept.contains(step)) folder_.remove(step);
  }
}

}  // namespace lockstep::train
