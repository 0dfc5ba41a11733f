// lockstep/ml/own_rows.h
//
// This rank's rows of a table as tensors, and values of all ranks' rows in one tensor.
#pragma once

#include <functional>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/table.h"

namespace lockstep::ml {

/// A copy of this rank's rows in the order of their numbers, [own rows, columns] of the table's type.
at::Tensor own_x(const Table& table);
/// The same of their targets: float64 [own rows, targets].
at::Tensor own_targets(const Table& table);

/// What `say` says of this rank's rows, [own rows, …]: it is given some blocks at a time, so that rows which do not fit
/// into memory are never there all at once. It is called equally often on every rank, at times without rows, and may be
/// a collective.
at::Tensor said_of_rows(const Table& table, const std::function<at::Tensor(const at::Tensor& x)>& say);

/// What each rank has of its own rows, [own rows, …], of all rows on rank 0; other ranks get an undefined tensor. A
/// collective.
at::Tensor gather_rows(const Table& table, const at::Tensor& own);

}  // namespace lockstep::ml
