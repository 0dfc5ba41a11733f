// lockstep/ml/draw_rows.h
//
// Some rows of a table by chance: the same ones on any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/core/random.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// Different numbers below `end`, by Floyd's method: each choice is as likely as any other. At most `end` of them.
std::vector<std::int64_t> draw_different(Random& random, std::int64_t end, std::int64_t count);

/// Different rows of a weighted table, of which a row is as likely first as its weight is large; by number, the same on
/// all ranks. A collective. Fault::Data if fewer rows weigh anything; they are drawn for clusters.
std::vector<std::int64_t> draw_different_by_weight(const Table& table, std::uint64_t seed, std::int64_t count);

/// The number of rows that weigh anything. A collective of weighted tables.
std::int64_t count_weighing(const Table& table);

/// Tables of rows of a table, drawn with replacement, in the order of their numbers. Each is a collective, and has
/// neither targets, weights nor names. The table must live as long.
class RowDraw {
 public:
  /// A collective. Fault::Data if all weights are 0. Threads are of this rank.
  RowDraw(const Table& table, int threads);

  /// A row is as likely as its weight is large.
  std::unique_ptr<Table> operator()(Random random, std::int64_t count) const;

 private:
  /// Numbers of this rank's rows among those that are drawn.
  std::vector<std::int64_t> drawn_evenly(Random random, std::int64_t count) const;
  std::vector<std::int64_t> drawn_by_weight(Random random, std::int64_t count) const;
  bool own(std::int64_t block) const { return block >= table_.own_begin() && block < table_.own_end(); }

  const Table& table_;
  // Of a weighted table.
  std::vector<double> to_block_;  // by block of all ranks: the weight of rows up to its end
  std::vector<double> to_row_;    // by row of this rank: the weight of rows of its block up to it
};

}  // namespace lockstep::ml
