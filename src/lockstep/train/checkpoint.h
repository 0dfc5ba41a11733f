// lockstep/train/checkpoint.h
//
// A checkpoint is a folder FOLDER/STEP with a manifest and one safetensors file per
// writer. It is written beside that name, brought to the disk and renamed last, so that a
// crash at any byte leaves the one before. The manifest holds the size and the hash of every
// file and of what it says itself: a spoilt checkpoint is found out, and the newest that is whole is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/parameter.h"
#include "lockstep/train/saved_tensors.h"

namespace lockstep::train {

/// Reads a tensor that does not lie in memory, as it is now.
using TensorReader = std::function<at::Tensor()>;
using TensorReaders = std::map<std::string, TensorReader>;
using TensorValues = std::function<at::Tensor(const parallel::Parameter&)>;

/// Of one step; `facts` are what the run must know beside its tensors.
struct Checkpoint {
  std::int64_t step = 0;
  nlohmann::json facts;
  parallel::Parameters tensors;   // that this rank and its replicas have
  parallel::Parameters own = {};  // that this rank alone has
  TensorParts parts = {};         // which part of them it has
  TensorReaders readers = {};     // of those that are of device meta
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  nlohmann::json facts;
  SavedTensors tensors;
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path);

  /// One writer's file, on the disk when it returns; gives what the manifest says of it. `values_of` is asked for one
  /// tensor after another, and those before it are written then. Any thread.
  nlohmann::json write_part(std::int64_t step, int writer, const parallel::Parameters& tensors,
                            const TensorParts& parts, const TensorValues& values_of) const;
  /// Once all parts are there, by one rank: from then on the checkpoint exists.
  void complete(std::int64_t step, const nlohmann::json& facts, const std::vector<nlohmann::json>& parts) const;
  /// Parts of a checkpoint that will not be completed; all of them if no step is named.
  void drop_unfinished(std::optional<std::int64_t> step = {}) const noexcept;
  void remove(std::int64_t step) const;

  /// Of complete ones, ascending; none if there is no such folder. Fault::Io if it cannot be read.
  std::vector<std::int64_t> steps() const;
  /// As rank 0 sees them. A collective.
  std::vector<std::int64_t> steps_by(comm::Communicator& group) const;
  /// Without looking at its tensors. Fault::Data naming the manifest if it is none.
  nlohmann::json facts(std::int64_t step) const;
  /// Fault::Data naming the file if it is not whole.
  SavedCheckpoint read(std::int64_t step) const;
  /// The same of one that somebody has looked through.
  SavedCheckpoint open(std::int64_t step) const;
  /// Why it is not whole, as far as every `shares`-th of its parts from `share` on says; "": it is. What cannot be read
  /// now may be whole: Fault::Io, or Fault::Usage if it is of another version.
  std::string fault_of(std::int64_t step, int share = 0, int shares = 1) const;
  /// The newest that is whole, or Fault as above; what is spoilt is passed over with a warning that names it.
  std::optional<SavedCheckpoint> newest() const;
  static void warn_of_spoilt(std::int64_t step, const std::string& fault);

 private:
  /// Fault::Data naming a part that is not as it was written.
  void check_parts(std::int64_t step, int share, int shares) const;
  std::string folder(std::int64_t step) const;
  std::string unfinished(std::int64_t step) const;

  std::string path_;
};

}  // namespace lockstep::train
