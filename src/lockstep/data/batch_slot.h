// lockstep/data/batch_slot.h
//
// One place of the loader's ring: a batch that threads fill row by row. Its memory is
// used again for the next batch, unless the consumer has kept a tensor of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/data/sample.h"

namespace lockstep::data {

class BatchSlot {
 public:
  struct Layout {
    Schema schema;
    std::int64_t pad_multiple = 1;
    bool pinned = false;
  };

  /// For a batch whose metadata and number of rows are known. One thread, before any row().
  void begin(const Layout& layout, Batch&& about, std::int64_t rows);
  /// Any threads, each row once.
  void set(std::int64_t row, std::int64_t id, const Sample& sample);
  void skip(std::int64_t row, Skipped skipped);
  void fail(std::exception_ptr error);
  /// After all rows: pads what differs in length and closes the gaps of skipped rows.
  void finish();

  const Batch& batch() const noexcept { return batch_; }
  std::exception_ptr error() const noexcept { return error_; }

 private:
  /// The whole memory of a field, of which a batch may use the first rows.
  struct Room {
    at::Tensor tensor;
    std::byte* data = nullptr;
    std::size_t row_bytes = 0;
  };
  struct Ragged {
    std::vector<std::vector<std::byte>> rows;
    std::vector<Shape> shapes;
  };
  void pad(std::size_t place);
  void close_gaps();

  Layout layout_;
  Batch batch_;
  std::vector<Room> rooms_;
  std::vector<Ragged> ragged_;
  std::vector<char> skipped_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace lockstep::data
