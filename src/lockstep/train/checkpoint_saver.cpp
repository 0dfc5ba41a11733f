#include "lockstep/train/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/profile/span.h"

namespace lockstep::train {
namespace {

/// A rank's share: whole tensors, nearly equal in bytes.
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
    if (std::min(writer, group.size() - 1) != group.rank()) continue;
    mine.push_back({name, tensor});
  }
  return mine;
}

/// What a rank writes: behind the tensors themselves copies of those that fit into the staging memory.
struct Staged {
  parallel::Parameters tensors;
  std::size_t uncopied = 0;  // the first ones
  std::int64_t bytes = 0;    // of the copies
};

Staged staged(const parallel::Parameters& mine, std::int64_t most_bytes) {
  Staged result;
  parallel::Parameters copies;
  for (const auto& [name, tensor] : mine) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    if (tensor.is_meta() || result.bytes + bytes > most_bytes) {
      result.tensors.push_back({name, tensor});
      continue;
    }
    copies.push_back({name, tensor.detach().to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true)});
    result.bytes += bytes;
  }
  result.uncopied = result.tensors.size();
  result.tensors.insert(result.tensors.end(), copies.begin(), copies.end());
  return result;
}

/// Says once, at its end at the latest, that what the run goes on to change is read.
class Reading {
 public:
  explicit Reading(std::promise<void> done) : done_(std::move(done)) {}
  ~Reading() { end(); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  void end() {
    if (!std::exchange(ended_, true)) done_.set_value();
  }

 private:
  std::promise<void> done_;
  bool ended_ = false;
};

}  // namespace

CheckpointSaver::CheckpointSaver(const CheckpointSettings& settings, comm::Communicator& group,
                                 const comm::Communicator& replicas)
    : settings_(settings), group_(group), replicas_(replicas), folder_(settings.folder), best_(settings.best_by) {
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
  best_.recall(evaluations);
  best_.forget_all_but(wanted() ? folder_.steps_by(group_) : std::vector<std::int64_t>());
}

void CheckpointSaver::begin(const Checkpoint& now) {
  if (under_way()) (void)finish();
  step_ = now.step;
  facts_ = now.facts;
  parallel::Parameters mine = share_of(now.tensors, replicas_);
  mine.insert(mine.end(), now.own.begin(), now.own.end());
  Staged all = [&] {
    const profile::Span span("copy for a checkpoint");
    return staged(mine, settings_.staging_bytes);
  }();
  staged_bytes_ = std::max(staged_bytes_, all.bytes);
  const profile::Span span("write what is not copied");
  std::promise<void> read;
  const auto all_read = read.get_future();
  writing_ = std::async(std::launch::async, [this, step = now.step, all = std::move(all), parts = now.parts,
                                             readers = now.readers, read = std::move(read)]() mutable {
    Reading reading(std::move(read));
    std::size_t asked_for = 0;
    const auto values_of = [&](const parallel::Parameter& one) {
      if (asked_for++ == all.uncopied) reading.end();
      return one.tensor.is_meta() ? readers.at(one.name)() : one.tensor;
    };
    try {
      return folder_.write_part(step, group_.rank(), all.tensors, parts, values_of).dump();
    } catch (...) {
      log().warn("the checkpoint of step {} is not written: {}", step, current_error().what());
      return std::string();
    }
  });
  all_read.wait();
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
  // What lies above is spoilt, as the run would have gone on from there: it is not the last of this one.
  const std::vector<std::int64_t> own(all.begin(), std::upper_bound(all.begin(), all.end(), step_));
  const auto last = std::clamp<std::ptrdiff_t>(settings_.keep_last, 1, std::ssize(own));
  std::set<std::int64_t> kept(own.end() - last, own.end());
  for (const std::int64_t step : best_.best(settings_.keep_best, own)) kept.insert(step);
  for (const std::int64_t step : all) {
    if (!kept.contains(step)) folder_.remove(step);
  }
}

}  // namespace lockstep::train
