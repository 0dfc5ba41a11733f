// lockstep/data/sample.h
//
// One sample, read: a Value per field of the schema. The bytes of a Value belong to
// the data set (a mapped file) or to the Sample's own scratch memory, which the next
// clear() takes back. A thread reuses one Sample for all it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <c10/util/SmallVector.h>

namespace lockstep::data {

using Bytes = std::span<const std::byte>;
using Shape = c10::SmallVector<std::int64_t, 4>;

/// Memory for what a sample unpacks to. Keeps what it once got, so that reading costs no allocation.
class Scratch {
 public:
  /// Aligned to 64 bytes, not cleared; valid until clear().
  std::span<std::byte> take(std::size_t bytes);
  void clear() noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::size_t block_ = 0;  // in use; those before it are full
  std::size_t used_ = 0;
};

struct Value {
  Bytes bytes;
  Shape shape;           // of Encoding::Values
  bool missing = false;  // this sample has no such field
};

struct Sample {
  std::vector<Value> values;  // by place in the schema
  Scratch scratch;

  /// Before the next one is read.
  void clear(std::size_t fields) {
    values.assign(fields, {});
    scratch.clear();
  }
};

}  // namespace lockstep::data
