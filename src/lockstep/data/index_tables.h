// lockstep/data/index_tables.h
//
// The long tables of an index in few bytes: numbers as differences from what their
// neighbours let one expect. What is left is mostly zeros and small numbers, which
// deflate makes next to nothing of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/index.h"

namespace lockstep::data {

void append_text(std::string& bytes, std::string_view text);
void append_extents(std::string& bytes, const std::vector<Extent>& extents);
/// Of texts that lie one behind the other.
void append_ends(std::string& bytes, const std::vector<std::uint64_t>& ends);

/// The index does not hold what it should.
[[noreturn]] void fail_torn_index();

/// Takes them off again, in the same order. Anything else is a torn index.
class TableReader {
 public:
  explicit TableReader(Bytes bytes) : rest_(bytes) {}
  std::string_view text();
  std::vector<Extent> extents();
  /// Of texts that are `size` bytes together at most.
  std::vector<std::uint64_t> ends(std::uint64_t size);
  bool empty() const noexcept { return rest_.empty(); }

 private:
  std::uint64_t number();
  std::uint64_t difference();
  /// Of entries that take a byte at least.
  std::size_t count();
  Bytes take(std::uint64_t bytes);

  Bytes rest_;
};

}  // namespace lockstep::data
