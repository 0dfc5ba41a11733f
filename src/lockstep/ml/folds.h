// lockstep/ml/folds.h
//
// The rows of a table dealt to folds, of which each is left out once. A row's fold follows
// from its number in the whole table: it is the same on any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/ml/classes.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

struct Folds {
  std::int64_t count = 0;
  std::vector<std::int16_t> of_rows = {};  // of this rank's rows
};

/// Neighbouring rows, as scikit-learn's KFold does; with a seed rows that it draws. Fault::Usage unless there are from
/// 2 to as many folds as rows.
Folds deal_rows(const Table& table, std::int64_t count, std::optional<std::uint64_t> seed = {});

/// The rows of each class by themselves, so that it has its share of each fold, as scikit-learn's StratifiedKFold does.
/// A collective. Fault::Usage if no class has as many rows as there are folds; warns if one has fewer.
Folds deal_classes(const Table& table, const Classes& classes, std::int64_t count, int threads,
                   std::optional<std::uint64_t> seed = {});

/// The same table, in which rows of the fold weigh nothing. It refers to the table.
std::unique_ptr<Table> without_fold(const Table& table, const Folds& folds, std::int64_t fold);
/// In which all others weigh nothing.
std::unique_ptr<Table> fold_alone(const Table& table, const Folds& folds, std::int64_t fold);

/// The rows of a table that weigh something, as a table of their own without weights: for estimators that take none.
/// A collective.
std::unique_ptr<Table> rows_that_weigh(const Table& table);

/// Fault::Usage unless each fold has two rows at least: of one alone there is no R².
void check_two_rows_each(const Table& table, const Folds& folds);

}  // namespace lockstep::ml
