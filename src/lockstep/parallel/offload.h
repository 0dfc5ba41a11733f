// lockstep/parallel/offload.h
//
// Shards that lie in a file on the disk of this host: of each unit what the optimiser remembers and, if
// asked for, its weights. Whoever steps them gets all of them piece by piece through two buffers: while one
// piece is changed, the one before is written and the next is read. What memory that takes does not
// depend on the model.
//
// One thread at a time uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/offload_file.h"

namespace lockstep::parallel {

struct OffloadOptions {
  std::string folder = {};  // see OffloadFile
  bool weights = false;
  int states = 0;  // that an optimiser remembers of each weight
  std::int64_t piece_bytes = std::int64_t{4} << 20;
};

class Offload {
 public:
  struct Run {
    std::int64_t elements;
    at::ScalarType type;
  };
  /// Of each unit, all zeros.
  Offload(const OffloadOptions& options, std::vector<Run> units);

  /// Which of the runs of a unit, each of as many elements.
  using Part = int;
  bool has_weights() const noexcept { return options_.weights; }
  static constexpr Part kWeights = 0;
  Part state(std::size_t number) const noexcept { return static_cast<int>(number) + (options_.weights ? 1 : 0); }

  /// A copy of elements [first, first + count).
  at::Tensor read(std::size_t unit, Part part, std::int64_t first, std::int64_t count);
  /// `values` take the place of those from `first` on.
  void write(std::size_t unit, Part part, std::int64_t first, const at::Tensor& values);
  /// All elements of a part become `to`, which is contiguous, once wait() returns.
  OffloadFile::Ticket begin_read(std::size_t unit, Part part, const at::Tensor& to);
  void wait(OffloadFile::Ticket ticket);

  /// Elements [first, first + count) of a unit: where they are of each part.
  struct Piece {
    std::size_t unit;
    std::int64_t first, count;
    std::vector<std::byte*> parts = {};
  };
  /// All elements of all units, one piece after another, each of which `work` may change.
  void update(const std::function<void(const Piece&)>& work);

  std::int64_t bytes() const noexcept { return file_.bytes(); }
  /// Of the buffers.
  std::int64_t memory_bytes() const noexcept;
  /// What that would be.
  static std::int64_t memory_bytes_of(const OffloadOptions& options, const std::vector<Run>& units);

 private:
  static constexpr std::int64_t kBuffers = 2;
  struct Pieces {
    std::int64_t count = 0, most_bytes = 0;  // of one part of the largest
  };
  static std::int64_t elements_of_piece(const OffloadOptions& options, const Run& unit);
  static Pieces pieces_of(const OffloadOptions& options, const std::vector<Run>& units);
  static std::int64_t bytes_of(const OffloadOptions& options, const std::vector<Run>& units);
  static int parts_of(const OffloadOptions& options) noexcept { return options.states + (options.weights ? 1 : 0); }
  int parts() const noexcept { return parts_of(options_); }
  std::int64_t place(std::size_t unit, Part part, std::int64_t element) const noexcept;
  std::int64_t size_of(std::size_t unit) const noexcept;
  void make_pieces();
  template <class Ask>
  OffloadFile::Ticket for_parts(const Piece& piece, const Ask& ask);

  OffloadOptions options_;
  std::vector<Run> units_;
  std::vector<std::int64_t> begins_;  // by unit, in the file
  std::vector<Piece> pieces_;
  std::array<at::Tensor, kBuffers> buffers_;  // of bytes; even pieces are in the first, odd ones in the second
  OffloadFile file_;                          // behind what its thread reads into
};

}  // namespace lockstep::parallel
