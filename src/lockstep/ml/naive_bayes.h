// lockstep/ml/naive_bayes.h
//
// What the kinds of naive Bayes have in common: classes, their priors, and what follows from
// the logarithm of how likely a class and a row are together.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/ml/class_moments.h"
#include "lockstep/ml/classes.h"
#include "lockstep/ml/table.h"

namespace lockstep::ml {

class NaiveBayes {
 public:
  virtual ~NaiveBayes() = default;

  /// Of a fitted one; on every rank.
  const Classes& classes() const noexcept { return classes_; }
  /// The sum of the weights of each class's rows, float64 [classes].
  const at::Tensor& class_count() const noexcept { return moments_.weight; }

  /// The value of the likeliest class, [rows]. Of this rank alone, as are the next ones. Fault::Usage, of score(), too,
  /// on other columns and before a fit.
  at::Tensor predict(const at::Tensor& x) const;
  /// float64 [rows, classes].
  at::Tensor predict_proba(const at::Tensor& x) const;
  at::Tensor predict_log_proba(const at::Tensor& x) const;
  /// Up to what the row itself weighs: float64 [rows, classes].
  at::Tensor predict_joint_log_proba(const at::Tensor& x) const;
  /// The share of rows, by weight, whose class it finds. A collective.
  double score(const Table& table) const;

 protected:
  explicit NaiveBayes(int threads);

  /// Fault::Usage unless they are from 0 on and their sum is 1, or there are none.
  static void check_priors(const std::vector<double>& priors, const char* name);
  /// Fault::Data unless they are float64, [classes, columns] and [classes].
  static void check_tensors(const Classes& classes, const std::vector<at::Tensor>& by_column,
                            const std::vector<at::Tensor>& by_class);

  struct Seen {
    Classes classes;
    ClassMoments moments;
  };
  /// What was seen before and the table's rows. At first, or if `anew`, classes are those given, or those of the table.
  /// This stays as it is: whoever asks takes the answer over by become() once all of it is checked, so that rows that
  /// are refused leave no trace. A collective. Fault::Data on a class that is none of them, Fault::Usage on other
  /// columns.
  Seen seen_with(const Table& table, const std::vector<double>& classes, bool anew) const;
  void become(Seen seen);
  /// The logarithms of the classes' priors: of their shares, or of what is given. Fault::Usage if that is not one for
  /// each class.
  static at::Tensor log_priors(const Seen& seen, const std::vector<double>& given);

  /// Of one row [columns] the logarithm of its joint likelihood with each class.
  virtual void joint(const double* row, double* result) const = 0;
  /// Fault::Usage before a fit.
  virtual std::int64_t columns() const = 0;

  Classes classes_;
  ClassMoments moments_;
  int threads_;

 private:
  /// joint() of rows of either type.
  template <class T>
  void joint_rows(const T* x, std::int64_t rows, double* result) const;
};

}  // namespace lockstep::ml
