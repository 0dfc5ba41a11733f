#include "lockstep/train/shard_work.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

#include "lockstep/parallel/random_key.h"
#include "lockstep/train/device.h"
#include "lockstep/train/precision.h"

namespace lockstep::train {

ShardWork::ShardWork(const TrainerSettings& settings, const Shards& shards, c10::Device device, Task& task,
                     parallel::DataParallel& engine)
    : settings_(settings), shards_(shards), device_(device), task_(task), engine_(engine) {}

void ShardWork::pass(const data::Batch& batch, const Pass& pass,
                     const std::function<void(const Score&, bool last)>& note) {
  const auto [first, last] = shards_.range(batch, pass.shard);
  // Of the short batch at the end of an epoch no piece is without samples on all ranks.
  const std::int64_t most = (batch.global_count + shards_.total - 1) / shards_.total;
  const std::int64_t pieces = std::min(settings_.accumulate, most);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t from = first + (last - first) * piece / pieces;
    const std::int64_t to = first + (last - first) * (piece + 1) / pieces;
    const bool last_piece = piece + 1 == pieces;
    engine_.reduce_in_backward(pass.reduce && last_piece);
    // Where layers meet those of other ranks, even a rank without samples must come.
    if (from == to && !settings_.sync_batch_norm) continue;
    parallel::random_key() = {settings_.seed, pass.step * settings_.accumulate + piece, shards_.own.first + pass.shard};
    const Score found = score(batch, from, to);
    note(found, last_piece);
    (found.loss / (static_cast<double>(batch.global_count) / pass.loss_scale)).backward();
  }
}

Score ShardWork::score(const data::Batch& batch, std::int64_t first, std::int64_t last) {
  data::Batch piece = piece_of(batch, first, last);
  convert_(piece, settings_.precision);
  if (!device_.is_cpu()) task_.check(piece);
  move_(piece, device_);
  const Autocast autocast(settings_.precision, device_.type());
  return task_.score(piece);
}

data::Batch ShardWork::piece_of(const data::Batch& batch, std::int64_t first, std::int64_t last) const {
  data::Batch piece = part_of(batch, first, last - first);
  if (!settings_.exact) return piece;
  for (std::size_t place = 0; place < piece.tensors.size(); ++place) {
    at::Tensor& tensor = piece.tensors[place];
    // What it is padded to depends on the other shards of the rank.
    const at::Tensor& lengths = piece.lengths[place];
    if (lengths.defined() && lengths.numel() > 0) tensor = tensor.narrow(1, 0, lengths.max().item<std::int64_t>());
    // Kernels may round by where their operands lie, and where a shard lies in the batch depends on the rank.
    tensor = tensor.clone();
  }
  return piece;
}

}  // namespace lockstep::train
