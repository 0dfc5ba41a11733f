#include "lockstep/ml/gram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/core/one_thread.h"
#include "lockstep/ml/check_rows.h"
#include "lockstep/ml/fold.h"
#include "lockstep/ml/kernels/add_gram.h"
#include "lockstep/ml/sorted_rows.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {

namespace {

/// Adds `of(weight, value, place)` of each value to the sum of its place in the row. What weighs nothing may be
/// anything.
template <class T, class Of>
void add_rows(const Block& block, const T* values, std::int64_t width, double* sums, const Of& of) {
  for (std::int64_t row = 0; row < block.rows; ++row, values += width) {
    const double weight = block.weight(row);
    if (!(weight > 0)) continue;
    for (std::int64_t place = 0; place < width; ++place) sums[place] += of(weight, values[place], place);
  }
}

double weight_of(const Block& block) {
  double weight = 0;
  for (std::int64_t row = 0; row < block.rows; ++row) weight += block.weight(row);
  return weight;
}

/// The number of the first block that weighs something, or 0 if none does. A collective of tables with weights.
std::int64_t first_to_look_at(const Table& table) {
  if (!table.weighted()) return 0;
  at::Tensor scratch;
  std::int64_t number = table.own_begin();
  while (number < table.own_end() && !(weight_of(table.block(number, scratch)) > 0)) ++number;
  const std::int64_t none = table.plan().blocks();
  at::Tensor first = at::full({1}, number < table.own_end() ? number : none, at::kLong);
  table.group().all_reduce_(first, comm::ReduceOp::Min, {.name = "the first block with weight"}).wait();
  number = first.item<std::int64_t>();
  return number < none ? number : 0;
}

}  // namespace

FirstLook first_look(const Table& table) {
  const std::int64_t columns = table.columns(), targets = table.targets(), number = first_to_look_at(table);
  const at::Tensor found = at::zeros({2, columns + targets}, at::kDouble);
  double* mean = found.mutable_data_ptr<double>();
  double* variance = mean + columns + targets;
  if (number >= table.own_begin() && number < table.own_end()) {
    at::Tensor scratch;
    const Block block = table.block(number, scratch);
    const double share = 1 / weight_of(block);
    const auto add = [&](const auto* values, std::int64_t width, double* means, double* variances) {
      add_rows(block, values, width, means,
               [&](double weight, double value, std::int64_t) { return share * weight * value; });
      add_rows(block, values, width, variances, [&](double weight, double value, std::int64_t place) {
        return share * weight * (value - means[place]) * (value - means[place]);
      });
    };
    with_type_of(table, [&]<class T>(T) { add(block.x<T>(), columns, mean, variance); });
    if (targets > 0) add(block.targets, targets, mean + columns, variance + columns);
  }
  table.group().all_reduce_(found, comm::ReduceOp::Sum, {.name = "a first look"}).wait();
  constexpr double kMostDeviations = 32;
  return {found[0], found[0].square().le(kMostDeviations * kMostDeviations * found[1]).all().item<bool>()};
}

namespace {

/// Products of columns whose own is at most `rounding` are 0: what is there says nothing, and may be less than 0.
void drop_rounding(at::Tensor& centred, const at::Tensor& rounding) {
  const at::Tensor constant = centred.diagonal().le(rounding);
  centred.masked_fill_(constant.unsqueeze(0).logical_or(constant.unsqueeze(1)), 0);
}

/// From the sums about what the first look has found.
Gram centred_sums(const Table& table, const at::Tensor& sums, const FirstLook& look) {
  const at::Tensor& shift = look.mean;
  const std::int64_t last = shift.numel();
  Gram result;
  result.weight = sums[last][last].item<double>();
  const at::Tensor lower = sums.slice(0, 0, last).slice(1, 0, last).tril();
  if (!std::isfinite(lower.sum().item<double>())) {
    check_finite(table);
    fail_of_large_products();
  }
  if (!(result.weight > 0)) {
    result.mean = shift;
    result.centred = at::zeros_like(lower);
    result.far = shift.abs();
    return result;
  }
  const at::Tensor way = sums[last].slice(0, 0, last) / result.weight;  // from the shift to the mean
  result.mean = shift + way;
  result.far = at::max(shift.abs(), result.mean.abs());
  result.centred = lower + lower.tril(-1).t() - result.weight * at::outer(way, way);
  // What a lane has added up of a block, a thousand products, is off by so much at most.
  constexpr double kRounding = 2e-13;
  const at::Tensor factor = look.small ? way.abs() + shift.abs() : way.abs();
  drop_rounding(result.centred, kRounding * result.weight * way.abs() * factor);
  return result;
}

void add_block(const Table& table, const Block& block, const GramShape& shape, const FirstLook& look, double* sums,
               GramScratch& scratch) {
  with_type_of(table, [&]<class T>(T) {
    add_gram(block.x<T>(), block.targets, block.weights, block.rows, shape,
             {look.mean.const_data_ptr<double>(), look.small}, sums, scratch);
  });
}

}  // namespace

void drop_rounding(Gram& gram) {
  constexpr double kOfMeans = 1e-14;
  drop_rounding(gram.centred, gram.weight * (kOfMeans * gram.far).square());
}

at::Tensor is_constant(const Gram& gram) { return gram.centred.diagonal().eq(0); }

Gram gram(const Table& table, int threads) {
  // Torch's own threads would spin on the cores that the next sweep needs, for matrices that one does in no time.
  const OneThread alone;
  const GramShape shape{table.columns(), table.targets()};
  const FirstLook look = first_look(table);
  std::vector<GramScratch> scratch(static_cast<std::size_t>(threads));
  const at::Tensor sums =
      fold(table, threads,
           {.name = "gram",
            .size = shape.size(),
            .leaf = [&](const Block& block, std::int64_t, double* partial, int thread) {
              add_block(table, block, shape, look, partial, scratch[static_cast<std::size_t>(thread)]);
            }});
  const Gram result = centred_sums(table, sums.view({shape.stride(), shape.stride()}), look);
  check_weight(result.weight);
  return result;
}

std::vector<Gram> gram_of_parts(const Table& table, const std::vector<std::int16_t>& part_of, std::int64_t parts,
                                int threads) {
  const GramShape shape{table.columns(), table.targets()};
  const FirstLook look = first_look(table);
  struct OfThread {
    GramScratch gram;
    SortedRows rows;
  };
  std::vector<OfThread> of_threads(static_cast<std::size_t>(threads));
  const at::Tensor sums =
      fold(table, threads,
           {.name = "gram of parts",
            .size = parts * shape.size(),
            .leaf = [&](const Block& block, std::int64_t number, double* partial, int thread) {
              auto& [scratch, rows] = of_threads[static_cast<std::size_t>(thread)];
              const std::int16_t* own = part_of.data() + table.own_place(number);
              const bool one = std::all_of(own, own + block.rows, [&](std::int16_t part) { return part == *own; });
              if (one) return add_block(table, block, shape, look, partial + *own * shape.size(), scratch);
              rows.sort(table, block, own, parts);
              for (std::int64_t part = 0; part < parts; ++part) {
                add_block(table, rows.part(part), shape, look, partial + part * shape.size(), scratch);
              }
            }});
  std::vector<Gram> result;
  for (const at::Tensor& of_part : sums.view({parts, shape.stride(), shape.stride()}).unbind()) {
    result.push_back(centred_sums(table, of_part, look));
  }
  return result;
}

Gram together(const std::vector<Gram>& parts, std::int64_t without) {
  const Gram& first = parts.front();
  Gram result{.mean = at::zeros_like(first.mean), .centred = at::zeros_like(first.centred), .far = first.far};
  const auto each = [&](const auto& work) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (static_cast<std::int64_t>(i) != without) work(parts[i]);
    }
  };
  each([&](const Gram& part) { result.weight += part.weight; });
  // About a mean of theirs, so that a large one costs no digits.
  const at::Tensor& about = first.mean;
  each([&](const Gram& part) {
    result.mean += part.weight / result.weight * (part.mean - about);
    result.far = at::max(result.far, part.far);
  });
  result.mean += about;
  each([&](const Gram& part) {
    const at::Tensor way = part.mean - result.mean;
    result.centred += part.centred + part.weight * at::outer(way, way);
  });
  drop_rounding(result);
  return result;
}

}  // namespace lockstep::ml
