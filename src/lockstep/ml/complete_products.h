// lockstep/ml/complete_products.h
//
// Sums of products of all pairs of columns over the rows in which nothing is missing, as a
// part of a sweep. Of a block they are around its own mean, so that it does not matter in which
// block a column begins to have values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/fold.h"
#include "lockstep/ml/gram.h"
#include "lockstep/ml/kernels/add_gram.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

class CompleteProducts {
 public:
  /// The table must live as long.
  CompleteProducts(const Table& table, int threads);

  /// For fold_all(); it must not outlive this.
  Fold fold();

  /// Of what was folded: rows of a weight above 0 in which all values are finite, and their products. Fault::Data if
  /// these are too large; there must be rows.
  std::int64_t rows(const at::Tensor& folded) const;
  Gram gram(const at::Tensor& folded) const;

 private:
  /// What is folded.
  template <class Word>
  struct Parts {
    Word* sums;  // [stride, stride], of which those below the diagonal count
    Word* mean;  // [columns]
    Word* weight;
    Word* rows;
  };
  struct OfThread {
    GramScratch scratch;
    std::vector<std::byte> rows;  // copies of complete ones
    std::vector<double> weights;
  };

  template <class Word>
  Parts<Word> parts(Word* words) const;
  template <class T>
  void add(const Block& block, const Parts<double>& to, OfThread& own) const;
  template <class T>
  void add_rows(const T* x, const double* weights, std::int64_t rows, const Parts<double>& to,
                GramScratch& scratch) const;
  void combine(const Parts<double>& left, const Parts<const double>& right) const;
  void add_outer(const double* of, double factor, double* sums) const;

  const Table& table_;
  GramShape shape_;
  std::vector<OfThread> of_threads_;
};

}  // namespace lockstep::ml
