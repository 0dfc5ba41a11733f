#include "lockstep/ml/complete_products.h"

#include <bit>
#include <type_traits>

#include <ATen/TensorOperators.h>

#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

/// By bits, which vectors of any processor add and compare at once: one more in an exponent that is full reaches the
/// sign.
template <class T>
bool all_finite(const T* values, std::int64_t count) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr int kFraction = sizeof(T) == 4 ? 23 : 52;
  constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1), kOne = Bits{1} << kFraction, kExponent = kSign - kOne;
  Bits all = 0;
  for (std::int64_t i = 0; i < count; ++i) all |= (std::bit_cast<Bits>(values[i]) & kExponent) + kOne;
  return (all & kSign) == 0;
}

}  // namespace

CompleteProducts::CompleteProducts(const Table& table, int threads)
    : table_(table), shape_{table.columns(), 0}, of_threads_(static_cast<std::size_t>(threads)) {}

template <class Word>
CompleteProducts::Parts<Word> CompleteProducts::parts(Word* words) const {
  Word* mean = words + shape_.size();
  return {words, mean, mean + shape_.columns, mean + shape_.columns + 1};
}

void CompleteProducts::add_outer(const double* of, double factor, double* sums) const {
  for (std::int64_t i = 0; i < shape_.columns; ++i) {
    const double times = factor * of[i];
    for (std::int64_t j = 0; j <= i; ++j) sums[i * shape_.stride() + j] += times * of[j];
  }
}

template <class T>
void CompleteProducts::add_rows(const T* x, const double* weights, std::int64_t rows, const Parts<double>& to,
                                GramScratch& scratch) const {
  if (rows == 0) return;
  const std::int64_t columns = shape_.columns;
  const std::vector<double> shift(x, x + columns);
  add_gram(x, nullptr, weights, rows, shape_, {shift.data()}, to.sums, scratch);
  const double* of_one = to.sums + columns * shape_.stride();
  *to.rows = static_cast<double>(rows);
  *to.weight = of_one[columns];
  for (std::int64_t i = 0; i < columns; ++i) to.mean[i] = of_one[i] / *to.weight;
  add_outer(to.mean, -*to.weight, to.sums);
  for (std::int64_t i = 0; i < columns; ++i) to.mean[i] += shift[static_cast<std::size_t>(i)];
}

template <class T>
void CompleteProducts::add(const Block& block, const Parts<double>& to, OfThread& own) const {
  const std::int64_t columns = shape_.columns;
  if (block.weights == nullptr && all_finite(block.x<T>(), block.rows * columns)) {
    return add_rows(block.x<T>(), nullptr, block.rows, to, own.scratch);
  }
  own.rows.clear();
  own.weights.clear();
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const T* x = block.x<T>() + row * columns;
    if (!(block.weight(row) > 0) || !all_finite(x, columns)) continue;
    const auto* bytes = reinterpret_cast<const std::byte*>(x);
    own.rows.insert(own.rows.end(), bytes, bytes + static_cast<std::size_t>(columns) * sizeof(T));
    own.weights.push_back(block.weight(row));
  }
  add_rows(reinterpret_cast<const T*>(own.rows.data()), block.weights == nullptr ? nullptr : own.weights.data(),
           static_cast<std::int64_t>(own.weights.size()), to, own.scratch);
}

/// As in moments.cpp, of pairs of columns.
void CompleteProducts::combine(const Parts<double>& left, const Parts<const double>& right) const {
  if (*right.rows == 0) return;
  const double weight = *left.weight + *right.weight;
  for (std::int64_t i = 0; i < shape_.size(); ++i) left.sums[i] += right.sums[i];
  std::vector<double> way(right.mean, right.mean + shape_.columns);
  for (std::int64_t i = 0; i < shape_.columns; ++i) way[static_cast<std::size_t>(i)] -= left.mean[i];
  if (*left.rows > 0) add_outer(way.data(), *left.weight * (*right.weight / weight), left.sums);
  for (std::int64_t i = 0; i < shape_.columns; ++i) {
    left.mean[i] += way[static_cast<std::size_t>(i)] * (*right.weight / weight);
  }
  *left.weight = weight;
  *left.rows += *right.rows;
}

Fold CompleteProducts::fold() {
  return {.name = "products",
          .size = shape_.size() + shape_.columns + 2,
          .leaf =
              [this](const Block& block, std::int64_t, double* words, int thread) {
                with_type_of(table_, [&]<class T>(T) {
                  add<T>(block, parts(words), of_threads_[static_cast<std::size_t>(thread)]);
                });
              },
          .combine = [this](double* left, const double* right) { combine(parts(left), parts(right)); }};
}

std::int64_t CompleteProducts::rows(const at::Tensor& folded) const {
  return static_cast<std::int64_t>(*parts(folded.const_data_ptr<double>()).rows);
}

Gram CompleteProducts::gram(const at::Tensor& folded) const {
  const std::int64_t columns = shape_.columns;
  const at::Tensor sums = folded.slice(0, 0, shape_.size()).view({shape_.stride(), shape_.stride()});
  const at::Tensor lower = sums.slice(0, 0, columns).slice(1, 0, columns).tril();
  if (!lower.isfinite().all().item<bool>()) {
    fail_of_large_products();
  }
  const at::Tensor mean = folded.slice(0, shape_.size(), shape_.size() + columns).clone();
  Gram result{*parts(folded.const_data_ptr<double>()).weight, mean, lower + lower.tril(-1).t(), mean.abs()};
  drop_rounding(result);
  return result;
}

}  // namespace lockstep::ml
