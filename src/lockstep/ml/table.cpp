#include "lockstep/ml/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "lockstep/comm/gather_values.h"
#include "lockstep/comm/tree.h"
#include "lockstep/core/error.h"
#include "lockstep/core/hash.h"
#include "lockstep/ml/preparation.h"

namespace lockstep::ml {

std::int64_t BlockPlan::rows_of_block(std::int64_t columns) {
  constexpr std::int64_t kBytes = 8 << 20, kMost = 8192, kFewest = 1024;
  const auto rows = kBytes / (std::max<std::int64_t>(columns, 1) * static_cast<std::int64_t>(sizeof(double)));
  return std::clamp(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows))), kFewest, kMost);
}

BlockPlan BlockPlan::even(std::int64_t rows, std::int64_t columns, int ranks) {
  BlockPlan plan;
  plan.rows = rows;
  plan.block_rows = rows_of_block(columns);
  const std::int64_t blocks = (rows + plan.block_rows - 1) / plan.block_rows;
  // Ranks end at nodes of the tree that are small beside what a rank has.
  constexpr std::int64_t kNodesOfRank = 64;
  std::vector<std::int64_t> ends{0};
  std::vector<comm::TreeNode> waiting;
  if (blocks > 0) waiting.push_back({0, static_cast<int>(blocks)});
  while (!waiting.empty()) {
    const comm::TreeNode node = waiting.back();
    waiting.pop_back();
    if (node.leaf() || kNodesOfRank * node.count * ranks <= blocks) {
      ends.push_back(node.end());
      continue;
    }
    waiting.push_back(node.right());
    waiting.push_back(node.left());
  }
  for (std::int64_t rank = 0; rank <= ranks; ++rank) {
    const std::int64_t wanted = blocks * rank / ranks;
    const auto above = std::lower_bound(ends.begin(), ends.end(), wanted);
    const bool below_is_nearer = above != ends.begin() && *above - wanted > wanted - *std::prev(above);
    plan.first_block.push_back(below_is_nearer ? *std::prev(above) : *above);
  }
  return plan;
}

std::string Table::name_of(std::int64_t column) const {
  if (column >= columns_) return fmt::format("'{}'", target_names_[static_cast<std::size_t>(column - columns_)]);
  return names_.empty() ? fmt::format("column {}", column)
                        : fmt::format("'{}'", names_[static_cast<std::size_t>(column)]);
}

Block Table::some(std::int64_t first, std::int64_t count, at::Tensor& scratch) const {
  Block rows = block(first / plan_.block_rows, scratch);
  const std::int64_t before = first - rows.first;
  rows.first = first;
  rows.rows = count;
  rows.values = rows.x<std::byte>() + before * columns_ * static_cast<std::int64_t>(c10::elementSize(type_));
  if (rows.targets != nullptr) rows.targets += before * targets_;
  if (rows.weights != nullptr) rows.weights += before;
  return rows;
}

namespace {

using comm::Communicator;

/// What ranks tell each other of their rows.
struct Facts {
  std::int64_t rows = 0, columns = 0, type = 0, targets = 0, weighted = 0, left_out = 0;
  std::uint64_t names = 0;   // a hash of all of them
  std::uint64_t faulty = 0;  // whether they make no table
};

/// What columns, targets and values are called, as ranks send it to each other.
std::string names_text(const TableRows& rows) {
  return nlohmann::json::array({rows.names, rows.target_names, rows.value_names})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Of `what`, which must be the same wherever there are rows. `said` puts a value into words.
template <class Said>
std::int64_t agreed(const std::vector<Facts>& facts, std::int64_t Facts::* what, const Said& said,
                    const char* remedy = "") {
  const Facts* first = nullptr;
  for (const Facts& one : facts) {
    if (one.rows == 0) continue;
    if (first == nullptr) first = &one;
    if (one.*what == first->*what) continue;
    fail(Fault::Usage, fmt::format("rank {} brings {}, rank {} {}{}", first - facts.data(), said(first->*what),
                                   &one - facts.data(), said(one.*what), remedy));
  }
  return first == nullptr ? 0 : first->*what;
}

class MemoryTable final : public Table {
 public:
  MemoryTable(Communicator& group, TableRows rows) : Table(group) {
    const std::string fault = fault_of(rows);
    const Facts own = fault.empty() ? facts_of(rows) : Facts{.faulty = 1};
    const auto facts = comm::gather_one_each(group, own, "rows of a table");
    refuse_faults(facts, fault);
    columns_ = agreed(facts, &Facts::columns, [](auto count) { return fmt::format("rows with {} columns", count); });
    plan(facts);
    for (const Facts& one : facts) left_out_ += one.left_out;
    if (plan_.rows == 0) {
      fail(Fault::Usage, left_out_ > 0 ? fmt::format("no row is left: all {} have missing values", left_out_)
                                       : std::string("the table has no rows, on no rank"));
    }
    type_ = static_cast<at::ScalarType>(agreed(
        facts, &Facts::type, [](auto type) { return comm::name_of(static_cast<at::ScalarType>(type)); },
        ": convert one"));
    targets_ = agreed(facts, &Facts::targets, [](auto count) { return fmt::format("rows with {} targets", count); });
    weighted_ = agreed(
        facts, &Facts::weighted, [](auto weighted) { return weighted != 0 ? "weights" : "none"; },
        ": give them on all ranks or on none");
    agree_on_names(facts, rows);
    names_ = std::move(rows.names);
    target_names_ = std::move(rows.target_names);
    for (std::int64_t i = static_cast<std::int64_t>(target_names_.size()); i < targets_; ++i) {
      target_names_.push_back(targets_ == 1 ? "target" : fmt::format("target[{}]", i));
    }
    value_names_ = std::move(rows.value_names);
    preparation_ = std::move(rows.preparation);
    if (rows.place_of_row) {
      const auto own_rank = static_cast<std::size_t>(group.rank());
      place_of_row_ = [place_of = std::move(rows.place_of_row), begin = begin_of_[own_rank],
                       end = begin_of_[own_rank + 1]](std::int64_t row) {
        return row >= begin && row < end ? place_of(row - begin) : std::string();
      };
    }
    observer_ = std::move(rows.observer);
    x_ = placed(rows.x.reshape({rows.x.size(0), columns_}).to(type_), columns_);
    // A rank without rows need not bring what there is none of.
    const auto doubles = [&](const at::Tensor& values, std::int64_t width) {
      return rows.x.size(0) == 0 ? at::empty({0, width}, at::kDouble) : values.reshape({-1, width}).to(at::kDouble);
    };
    if (targets_ > 0) y_ = placed(doubles(rows.targets, targets_), targets_);
    if (weighted_) weights_ = placed(doubles(rows.weights, 1), 1);
  }

  Block block(std::int64_t number, at::Tensor&) const override {
    const std::int64_t first = plan_.begin(number);
    return {first, plan_.rows_of(number), row_of(x_, first), static_cast<const double*>(row_of(y_, first)),
            static_cast<const double*>(row_of(weights_, first))};
  }

 private:
  /// This rank's blocks: rows as they were brought, and the last block if others brought some of it.
  struct Placed {
    at::Tensor whole, last;
    std::int64_t last_begin = std::numeric_limits<std::int64_t>::max();
  };

  /// Why they make no table, by themselves; empty if they do.
  static std::string fault_of(const TableRows& rows) {
    const at::Tensor& x = rows.x;
    if (!x.defined() || x.dim() == 0 || (x.dim() != 2 && x.numel() > 0))
      return "a table is made of a matrix, a row for each sample";
    if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kDouble)
      return fmt::format("a table holds float32 or float64, not {}", toString(x.scalar_type()));
    if (x.size(0) == 0) return "";  // nothing else counts
    if (x.numel() == 0) return "rows have no columns";
    for (const auto& [tensor, name] : {std::pair(&rows.targets, "targets"), std::pair(&rows.weights, "weights")}) {
      if (!tensor->defined()) continue;
      const std::int64_t count = tensor->dim() == 0 ? 1 : tensor->size(0);
      if (count != x.size(0)) return fmt::format("{} {} for {} rows", count, name, x.size(0));
    }
    if (rows.weights.defined() && rows.weights.numel() != x.size(0)) return "a row has one weight, not several";
    if (rows.weights.defined() && !rows.weights.ge(0).logical_and(rows.weights.isfinite()).all().item<bool>())
      return "weights of rows are finite numbers from 0 on";
    const auto names = static_cast<std::int64_t>(rows.names.size());
    if (names > 0 && names != x.size(1)) return fmt::format("{} names for {} columns", names, x.size(1));
    return "";
  }

  static Facts facts_of(const TableRows& rows) {
    const std::int64_t count = rows.x.size(0);
    return {.rows = count,
            .columns = rows.x.dim() == 2 ? rows.x.size(1) : 0,
            .type = static_cast<std::int64_t>(rows.x.scalar_type()),
            .targets = rows.targets.defined() && count > 0 ? rows.targets.numel() / count : 0,
            .weighted = rows.weights.defined() ? 1 : 0,
            .left_out = rows.left_out,
            .names = hash64(names_text(rows)),
            .faulty = 0};
  }

  /// On all ranks alike, as others would wait for one that ends alone. A collective if there are any.
  void refuse_faults(const std::vector<Facts>& facts, const std::string& own) const {
    if (std::none_of(facts.begin(), facts.end(), [](const Facts& one) { return one.faulty != 0; })) return;
    const auto faults = group_.gather_bytes(own);
    const auto first = std::find_if(faults.begin(), faults.end(), [](const auto& text) { return !text.empty(); });
    fail(Fault::Usage, facts.size() == 1 ? *first : fmt::format("rank {}: {}", first - faults.begin(), *first));
  }

  /// Ranks with rows must call them alike; one without takes the names of the others. A collective if they differ.
  void agree_on_names(const std::vector<Facts>& facts, TableRows& rows) const {
    const auto has_rows = [](const Facts& one) { return one.rows > 0; };
    const auto first = std::find_if(facts.begin(), facts.end(), has_rows);
    const auto differs = [&](const Facts& one) { return one.names != first->names; };
    if (std::none_of(facts.begin(), facts.end(), differs)) return;
    const auto texts = group_.gather_bytes(names_text(rows));
    const std::string& agreed = texts[static_cast<std::size_t>(first - facts.begin())];
    const auto other =
        std::find_if(facts.begin(), facts.end(), [&](const Facts& one) { return has_rows(one) && differs(one); });
    if (other != facts.end()) {
      fail(Fault::Usage,
           fmt::format("columns have the names {} on rank {}, and {} on rank {}", agreed, first - facts.begin(),
                       texts[static_cast<std::size_t>(other - facts.begin())], other - facts.begin()));
    }
    const auto names = nlohmann::json::parse(agreed);
    names[0].get_to(rows.names);
    names[1].get_to(rows.target_names);
    names[2].get_to(rows.value_names);
  }

  /// A block is of the rank that has its first row.
  void plan(const std::vector<Facts>& facts) {
    plan_.block_rows = BlockPlan::rows_of_block(columns_);
    begin_of_.assign(1, 0);
    for (const Facts& one : facts) begin_of_.push_back(begin_of_.back() + one.rows);
    plan_.rows = begin_of_.back();
    for (const std::int64_t begin : begin_of_) {
      plan_.first_block.push_back((begin + plan_.block_rows - 1) / plan_.block_rows);
    }
  }

  /// Rows before this rank's first block go to whom their block belongs.
  Placed placed(at::Tensor rows, std::int64_t width) const {
    rows = rows.contiguous();
    const auto ranks = static_cast<std::size_t>(group_.size());
    const auto own = static_cast<std::size_t>(group_.rank());
    // Rows that `from` has of blocks of `to`.
    const auto shared = [&](std::size_t from, std::size_t to) {
      const std::int64_t first = std::max(begin_of_[from], plan_.begin(plan_.first_block[to]));
      const std::int64_t last = std::min(begin_of_[from + 1], plan_.begin(plan_.first_block[to + 1]));
      return std::max<std::int64_t>(last - first, 0);
    };
    bool any = false;
    std::vector<std::int64_t> sends(ranks), receives(ranks);
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t to = 0; to < ranks; ++to) {
        if (from == to || shared(from, to) == 0) continue;
        any = true;
        if (from == own) sends[to] = shared(from, to) * width;
        if (to == own) receives[from] = shared(from, to) * width;
      }
    }
    Placed result;
    const std::int64_t sent = std::accumulate(sends.begin(), sends.end(), std::int64_t{0}) / width;
    result.whole = rows.slice(0, sent);
    if (!any) return result;
    const std::int64_t received = std::accumulate(receives.begin(), receives.end(), std::int64_t{0});
    at::Tensor others = at::empty({received}, rows.options());
    group_.all_to_all(others, rows.slice(0, 0, sent).reshape({-1}), sends, receives, {.name = "rows of blocks"}).wait();
    if (received == 0) return result;
    result.last_begin = plan_.begin(own_end() - 1);
    result.last =
        at::cat({result.whole.slice(0, result.last_begin - plan_.begin(own_begin())), others.view({-1, width})});
    return result;
  }

  const void* row_of(const Placed& placed, std::int64_t row) const {
    if (!placed.whole.defined()) return nullptr;
    const bool last = row >= placed.last_begin;
    const at::Tensor& rows = last ? placed.last : placed.whole;
    const std::int64_t place = row - (last ? placed.last_begin : plan_.begin(own_begin()));
    const auto bytes = static_cast<std::int64_t>(rows.element_size()) * rows.size(1);
    return static_cast<const std::byte*>(rows.const_data_ptr()) + place * bytes;
  }

  std::vector<std::int64_t> begin_of_;  // by rank: the number of the first row that it brought
  Placed x_, y_, weights_;
};

}  // namespace

std::unique_ptr<Table> make_table(Communicator& group, TableRows rows) {
  return std::make_unique<MemoryTable>(group, std::move(rows));
}

at::Tensor rows_at(const Table& table, const std::vector<std::int64_t>& numbers) {
  // Zeros of the others make of the sum a gathering.
  const std::int64_t columns = table.columns();
  at::Tensor result = at::zeros({static_cast<std::int64_t>(numbers.size()), columns}, at::kDouble);
  at::Tensor scratch;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t number = numbers[i] / table.plan().block_rows;
    if (number < table.own_begin() || number >= table.own_end()) continue;
    const Block row = table.some(numbers[i], 1, scratch);
    with_type_of(table, [&]<class T>(T) {
      std::copy_n(row.x<T>(), columns, result.mutable_data_ptr<double>() + static_cast<std::int64_t>(i) * columns);
    });
  }
  table.group().all_reduce_(result, comm::ReduceOp::Sum, {.name = "rows by number"}).wait();
  return result;
}

namespace {

/// What is said of a value that is no good.
struct Complaint {
  std::string usual, of_infinite;
};

/// Where a row is stored, of whichever rank knows. A collective.
std::string place_on_any_rank(const Table& table, std::int64_t row) {
  for (const std::string& place : table.group().gather_bytes(table.place_of(row))) {
    if (!place.empty()) return place;
  }
  return "";
}

/// Fault::Data, on all ranks, naming the first value that `bad` says, if there is one; among targets, too, if there is
/// a complaint for those.
template <class Bad>
void check_values(const Table& table, const Bad& is_bad, const Complaint& of_columns,
                  const Complaint* of_targets = nullptr) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const std::int64_t columns = table.columns(), targets = table.targets(), width = columns + targets;
  std::int64_t bad = kNone;  // row, place in it and whether it is infinite, as one number
  // Of values in rows of `wide`, which take the places from `first` on.
  const auto look = [&](const Block& block, const auto* values, std::int64_t wide, std::int64_t first) {
    const auto* end = values + block.rows * wide;
    const auto* found = std::find_if(values, end, is_bad);
    if (found == end) return;
    const std::int64_t place = (block.first + (found - values) / wide) * width + first + (found - values) % wide;
    bad = std::min(bad, 2 * place + (std::isinf(*found) ? 1 : 0));
  };
  {
    const Sweep sweep(table.observer().get(), "looking for gaps", table.own_rows());
    at::Tensor scratch;
    for (std::int64_t number = table.own_begin(); number < table.own_end() && bad == kNone; ++number) {
      const Block block = table.block(number, scratch);
      with_type_of(table, [&]<class T>(T) { look(block, block.x<T>(), columns, 0); });
      if (of_targets != nullptr) look(block, block.targets, targets, columns);
      sweep.add(block.rows);
    }
  }
  at::Tensor first = at::full({1}, bad, at::kLong);
  table.group().all_reduce_(first, comm::ReduceOp::Min, {.name = "values that are no good"}).wait();
  bad = first.item<std::int64_t>();
  if (bad == kNone) return;
  const std::int64_t row = bad / 2 / width, column = bad / 2 % width;
  const Complaint& said = column < columns ? of_columns : *of_targets;
  const std::string counted = table.left_out() == 0 ? "" : " (counted without those left out)";
  const std::string place = place_on_any_rank(table, row);
  fail(Fault::Data,
       fmt::format("row {}{}, {} {}{}", row, counted, table.name_of(column),
                   bad % 2 == 0 ? said.usual : said.of_infinite, place.empty() ? "" : fmt::format(" ({})", place)));
}

/// Of columns, for which `ways` of --missing are a remedy, and of targets if there is a complaint for those. No way of
/// --missing helps against what is infinite.
void check_finite_values(const Table& table, const std::string& ways, const Complaint* of_targets) {
  const Preparation* prepared = table.preparation().get();
  const std::string scaled = prepared != nullptr && !prepared->scale.empty() ? " once it is scaled" : "";
  check_values(
      table, [](auto value) { return !std::isfinite(value); },
      {fmt::format("is no finite number{}; clean the data, or use --missing {}", scaled, ways),
       fmt::format("is infinite{}; clean the data", scaled)},
      of_targets);
}

}  // namespace

void check_finite(const Table& table) {
  const Complaint of_targets{"is no finite number; clean the data, or use --missing drop",
                             "is infinite; clean the data"};
  check_finite_values(table, "mean or drop", &of_targets);
}

void check_finite_columns(const Table& table) { check_finite_values(table, "mean", nullptr); }

void check_not_negative(const Table& table) {
  const char* below = "is below 0, and so no count";
  check_values(table, [](auto value) { return value < 0; }, {below, below});
}

}  // namespace lockstep::ml
