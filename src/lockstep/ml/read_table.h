// lockstep/ml/read_table.h
//
// The numbers of a data set as a Table: every rank reads the rows of its blocks, once into
// memory or, of a set that is larger, in each pass.
#pragma once

#include <memory>
#include <string>

#include "lockstep/data/open.h"
#include "lockstep/ml/preparation.h"
#include "lockstep/ml/row_layout.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct ReadOptions {
  ColumnChoice choice = {};
  PreparationChoice preparation = {};
  const Preparation* like = nullptr;  // how another table's columns were prepared: nothing is learnt then
  int threads = 1;
  /// Bytes of rows of this rank that may lie in memory; of more, every pass reads them anew. 0: half of what its host
  /// has.
  std::int64_t memory_bytes = 0;
  /// The algorithm takes all rows into memory by itself: nobody is told that each pass reads them anew.
  bool keeps_rows = false;
  std::shared_ptr<SweepObserver> observer = {};  // of reading, and of passes over the table
};

/// A source with {rank} in its name has a part for each rank, and lies in memory; else all ranks see all of it. A
/// collective.
std::unique_ptr<Table> read_table(comm::Communicator& group, const std::string& source,
                                  const data::OpenOptions& options, const ReadOptions& how);

/// Rows [first, first + count) of a data set, of this process alone.
TableRows read_rows(const data::Dataset& dataset, std::int64_t first, std::int64_t count, const RowLayout& layout,
                    int threads, SweepObserver* observer = nullptr);

}  // namespace lockstep::ml
