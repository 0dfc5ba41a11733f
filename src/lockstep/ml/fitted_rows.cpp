#include "lockstep/ml/fitted_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"
#include "lockstep/ml/model_file.h"
#include "lockstep/ml/nearest_rows.h"
#include "lockstep/ml/own_rows.h"
#include "lockstep/ml/too_large.h"

namespace lockstep::ml {
namespace {

/// What ranks tell each other of their queries.
struct Facts {
  std::int64_t rows = 0, columns = -1;
  std::int64_t bad = -1;      // place of the first value that is not finite
  std::int64_t infinite = 0;  // whether that is
};

Facts facts_of(const at::Tensor& queries) {
  if (queries.dim() != 2) return {};
  Facts facts{.rows = queries.size(0), .columns = queries.size(1)};
  const auto look_at = [&]<class T>(const T* values) {
    const T* end = values + queries.numel();
    const T* found = std::find_if(values, end, [](T value) { return !std::isfinite(value); });
    if (found == end) return;
    facts.bad = found - values;
    facts.infinite = std::isinf(*found) ? 1 : 0;
  };
  queries.scalar_type() == at::kFloat ? look_at(queries.const_data_ptr<float>())
                                      : look_at(queries.const_data_ptr<double>());
  return facts;
}

/// Of all ranks, so that all fail alike.
void check(const std::vector<Facts>& facts, std::int64_t columns) {
  for (std::size_t rank = 0; rank < facts.size(); ++rank) {
    const auto& [rows, wide, bad, infinite] = facts[rank];
    const std::string who = facts.size() == 1 ? "" : fmt::format("rank {}: ", rank);
    if (wide < 0) fail(Fault::Usage, who + "queries are a matrix, a row for each");
    if (wide != columns) fail(Fault::Usage, fmt::format("{}queries of {} columns, and rows of {}", who, wide, columns));
    if (bad < 0) continue;
    fail(Fault::Data, fmt::format("{}query {}, column {} is {}", who, bad / columns, bad % columns,
                                  infinite != 0 ? "infinite; clean the data"
                                                : "no finite number; clean the data, or use --missing mean"));
  }
}

Neighbors empty_neighbors(std::int64_t queries, std::int64_t k, std::int64_t targets) {
  return {at::empty({queries, k}, at::kDouble), at::empty({queries, k}, at::kLong),
          at::empty({queries, k, targets}, at::kDouble)};
}

/// Numbers of rows are exact in float64 up to 2^53.
class Record {
 public:
  explicit Record(std::int64_t targets) : targets_(targets) {}
  std::int64_t width() const { return 2 + targets_; }

  /// A neighbour among rows that begin with number `first`; `targets` are those of these rows.
  void write(const Neighbor& neighbor, std::int64_t first, const at::Tensor& targets, double* words) const {
    words[0] = neighbor.squared;
    words[1] = static_cast<double>(neighbor.row);
    if (neighbor.row == Neighbor().row) {  // the rank has too few
      std::fill_n(words + 2, targets_, 0.0);
    } else if (targets_ > 0) {
      std::copy_n(targets.const_data_ptr<double>() + (neighbor.row - first) * targets_, targets_, words + 2);
    }
  }
  static bool before(const double* one, const double* other) {
    return one[0] != other[0] ? one[0] < other[0] : one[1] < other[1];
  }
  void read(const double* words, const Neighbors& neighbors, std::int64_t place) const {
    neighbors.distances.mutable_data_ptr<double>()[place] = std::sqrt(words[0]);
    neighbors.indices.mutable_data_ptr<std::int64_t>()[place] = static_cast<std::int64_t>(words[1]);
    std::copy_n(words + 2, targets_, neighbors.targets.mutable_data_ptr<double>() + place * targets_);
  }

 private:
  std::int64_t targets_;
};

/// Whether squares were too large for a distance.
bool any_too_far(const Neighbors& neighbors) { return !neighbors.distances.isfinite().all().item<bool>(); }

class InMemory final : public FittedRows {
 public:
  explicit InMemory(TableRows rows) : rows_(std::move(rows)) {
    rows_.x = rows_.x.contiguous();
    rows_.targets = rows_.targets.contiguous();
  }

  Neighbors nearest(const at::Tensor& queries, std::int64_t k, int threads) const override {
    const at::Tensor own = queries.to(rows_.x.scalar_type()).contiguous();
    check({facts_of(own)}, rows_.x.size(1));
    const auto found = nearest_rows(RowBlocks::of(rows_.x), own, k, threads);
    const Record record(rows_.targets.size(1));
    Neighbors result = empty_neighbors(own.size(0), k, rows_.targets.size(1));
    std::vector<double> words(static_cast<std::size_t>(record.width()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      record.write(found[i], 0, rows_.targets, words.data());
      record.read(words.data(), result, static_cast<std::int64_t>(i));
    }
    if (any_too_far(result)) fail_of_large_squares();
    return result;
  }
  TableRows all() const override { return rows_; }

 private:
  TableRows rows_;
};

/// Rounds: some queries of every rank are gathered on all, each looks for the nearest of its own rows, and candidates
/// go back to whom the query belongs. Queries of the next round and candidates of the last travel meanwhile.
class Asking {
 public:
  Asking(const Table& table, const at::Tensor& targets, at::Tensor queries, std::int64_t k, int threads)
      : table_(table),
        targets_(targets),
        queries_(std::move(queries)),
        k_(k),
        threads_(threads),
        record_(table.targets()),
        result_(empty_neighbors(queries_.dim() == 2 ? queries_.size(0) : 0, k, table.targets())) {}

  Neighbors run() {
    gather_counts();
    const std::int64_t rounds = (*std::max_element(counts_.begin(), counts_.end()) + each_ - 1) / each_;
    const Sweep sweep(table_.observer().get(), "nearest rows", queries_.size(0));
    Round next = rounds > 0 ? ask(0) : Round();
    Round last;
    for (std::int64_t number = 0; number < rounds; ++number) {
      Round round = std::move(next);
      round.questions_come.wait();
      if (number + 1 < rounds) next = ask(number + 1);
      answer(round);
      sweep.add(own_count(round));
      if (number > 0) take(last);
      last = std::move(round);
    }
    if (rounds > 0) take(last);
    check_distances();
    return result_;
  }

 private:
  /// On all ranks alike, as others would go on to a collective that one which ends alone never joins.
  void check_distances() const {
    at::Tensor any = at::empty({1}, at::kLong).fill_(any_too_far(result_) ? 1 : 0);
    group().all_reduce_(any, comm::ReduceOp::Max, {.name = "distances that are too large"}).wait();
    if (any.item<std::int64_t>() != 0) fail_of_large_squares();
  }

  struct Round {
    std::int64_t first = 0;            // of this rank's queries
    std::vector<std::int64_t> counts;  // by rank
    at::Tensor questions, answers, candidates;
    comm::Work questions_come, candidates_come;
  };

  comm::Communicator& group() const { return table_.group(); }
  std::int64_t own_count(const Round& round) const { return round.counts[static_cast<std::size_t>(group().rank())]; }

  void gather_counts() {
    const auto facts = comm::gather_one_each(group(), facts_of(queries_), "counts of queries");
    check(facts, table_.columns());
    for (const Facts& one : facts) counts_.push_back(one.rows);
    constexpr std::int64_t kOfRound = 8192, kFewest = 256;
    each_ = std::max(kOfRound / group().size(), kFewest);
  }

  Round ask(std::int64_t number) const {
    Round round;
    round.first = number * each_;
    std::vector<std::int64_t> values;
    std::int64_t all = 0;
    for (const std::int64_t count : counts_) {
      round.counts.push_back(std::clamp<std::int64_t>(count - round.first, 0, each_));
      values.push_back(round.counts.back() * table_.columns());
      all += round.counts.back();
    }
    round.questions = at::empty({all, table_.columns()}, table_.type());
    const std::int64_t first = std::min(round.first, queries_.size(0));
    const at::Tensor own = queries_.slice(0, first, first + own_count(round));
    round.questions_come =
        group().all_gather(round.questions.view({-1}), own.reshape({-1}), values, {.name = "queries"});
    return round;
  }

  void answer(Round& round) const {
    const auto found = nearest_rows(RowBlocks::of(table_), round.questions, k_, threads_);
    const std::int64_t width = record_.width(), first = table_.plan().begin(table_.own_begin());
    round.answers = at::empty({static_cast<std::int64_t>(found.size()) * width}, at::kDouble);
    for (std::size_t i = 0; i < found.size(); ++i) {
      record_.write(found[i], first, targets_,
                    round.answers.mutable_data_ptr<double>() + static_cast<std::int64_t>(i) * width);
    }
    std::vector<std::int64_t> sends;
    for (const std::int64_t count : round.counts) sends.push_back(count * k_ * width);
    const std::int64_t own = own_count(round) * k_ * width;
    round.candidates = at::empty({group().size() * own}, at::kDouble);
    round.candidates_come = group().all_to_all(round.candidates, round.answers, sends,
                                               std::vector<std::int64_t>(static_cast<std::size_t>(group().size()), own),
                                               {.name = "nearest rows"});
  }

  /// The nearest of all that ranks have found.
  void take(Round& round) const {
    round.candidates_come.wait();
    const std::int64_t width = record_.width(), own = own_count(round);
    std::vector<const double*> of_query;
    for (std::int64_t query = 0; query < own; ++query) {
      of_query.clear();
      for (std::int64_t rank = 0; rank < group().size(); ++rank) {
        const double* words = round.candidates.const_data_ptr<double>() + (rank * own + query) * k_ * width;
        for (std::int64_t i = 0; i < k_; ++i) of_query.push_back(words + i * width);
      }
      std::partial_sort(of_query.begin(), of_query.begin() + k_, of_query.end(), Record::before);
      for (std::int64_t i = 0; i < k_; ++i) {
        record_.read(of_query[static_cast<std::size_t>(i)], result_, (round.first + query) * k_ + i);
      }
    }
  }

  const Table& table_;
  const at::Tensor& targets_;  // of this rank's rows
  at::Tensor queries_;
  std::int64_t k_;
  int threads_;
  Record record_;
  Neighbors result_;
  std::vector<std::int64_t> counts_;  // queries by rank
  std::int64_t each_ = 0;             // of a rank in a round
};

class OfTable final : public FittedRows {
 public:
  explicit OfTable(std::shared_ptr<const Table> table) : table_(std::move(table)) {
    check_finite(*table_);
    targets_ = own_targets(*table_);
  }

  Neighbors nearest(const at::Tensor& queries, std::int64_t k, int threads) const override {
    return Asking(*table_, targets_, queries.to(table_->type()).contiguous(), k, threads).run();
  }
  TableRows all() const override {
    return {.x = gather_rows(*table_, own_x(*table_)),
            .targets = gather_rows(*table_, targets_),
            .names = columns_of(*table_),
            .target_names = table_->target_names(),
            .value_names = table_->value_names(),
            .preparation = std::make_shared<const Preparation>(preparation_of(*table_))};
  }

 private:
  std::shared_ptr<const Table> table_;
  at::Tensor targets_;  // of this rank's rows
};

}  // namespace

std::shared_ptr<const FittedRows> rows_of_table(std::shared_ptr<const Table> table) {
  return std::make_shared<OfTable>(std::move(table));
}
std::shared_ptr<const FittedRows> rows_in_memory(TableRows rows) { return std::make_shared<InMemory>(std::move(rows)); }

}  // namespace lockstep::ml
