#include "lockstep/ml/read_table.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/core/cgroup.h"
#include "lockstep/core/cpu.h"
#include "lockstep/core/error.h"
#include "lockstep/core/log.h"
#include "lockstep/core/on_threads.h"
#include "lockstep/core/text.h"
#include "lockstep/ml/kernels/padded.h"

namespace lockstep::ml {
namespace {

constexpr std::int64_t kRowsAtOnce = 1024;  // by a thread

/// Places for rows: [rows, columns], [rows, targets], [rows].
template <class T>
struct Places {
  T* x;
  double* targets;
  double* weights;
};

template <class T>
void read_some(const data::Dataset& dataset, std::int64_t first, std::int64_t count, const RowLayout& layout,
               const Places<T>& to, data::Sample& sample) {
  for (std::int64_t row = 0; row < count; ++row) {
    dataset.read(first + row, sample);
    try {
      layout.read(sample, to.x + row * layout.columns(), to.targets + row * layout.targets(),
                  to.weights + (layout.weighted() ? row : 0));
    } catch (Error& error) {
      error.during("reading " + dataset.name(first + row));
      throw;
    }
  }
}

/// Of rows from `first` on.
std::function<std::string(std::int64_t)> places_in(data::DatasetPtr dataset, std::int64_t first = 0) {
  return [dataset = std::move(dataset), first](std::int64_t row) { return dataset->name(first + row); };
}

/// Rows stay where they are stored; a block is read whenever somebody asks for it.
class StreamedTable final : public Table {
 public:
  StreamedTable(comm::Communicator& group, data::DatasetPtr dataset, const RowLayout& layout, const BlockPlan& plan,
                const Preparation& preparation, std::shared_ptr<SweepObserver> observer)
      : Table(group), dataset_(std::move(dataset)), layout_(layout) {
    plan_ = plan;
    observer_ = std::move(observer);
    preparation_ = std::make_shared<const Preparation>(preparation);
    columns_ = layout_.columns();
    targets_ = layout_.targets();
    weighted_ = layout_.weighted();
    type_ = layout_.type();
    names_ = layout_.names();
    target_names_ = layout_.target_names();
    value_names_ = layout_.value_names();
    place_of_row_ = places_in(dataset_);
  }

  Block block(std::int64_t number, at::Tensor& scratch) const override {
    return some(plan_.begin(number), plan_.rows_of(number), scratch);
  }

  Block some(std::int64_t first, std::int64_t rows, at::Tensor& scratch) const override {
    // Targets, weights, then columns, each on a boundary of 64 bytes.
    const std::int64_t targets = padded(rows * targets_);
    const std::int64_t weights = weighted_ ? padded(rows) : 0, size = targets + weights + padded(rows * columns_);
    if (!scratch.defined() || scratch.numel() < size) scratch = at::empty({size}, at::kDouble);
    double* memory = scratch.mutable_data_ptr<double>();
    Block block{.first = first, .rows = rows, .values = memory + targets + weights};
    if (targets_ > 0) block.targets = memory;
    if (weighted_) block.weights = memory + targets;
    data::Sample sample;
    with_type_of(*this, [&]<class T>(T) {
      auto* x = reinterpret_cast<T*>(memory + targets + weights);
      read_some<T>(*dataset_, first, rows, layout_, {x, memory, memory + targets}, sample);
      preparation_->apply(x, rows, columns_);
    });
    return block;
  }

 private:
  data::DatasetPtr dataset_;
  RowLayout layout_;
};

/// Of the rows those in which nothing is missing.
TableRows complete(TableRows rows) {
  at::Tensor gap = rows.x.isnan().any(1);
  if (rows.targets.defined()) gap.logical_or_(rows.targets.isnan().any(1));
  if (!gap.any().item<bool>()) return rows;
  const at::Tensor whole = gap.logical_not().nonzero().squeeze(1);
  rows.left_out = gap.sum().item<std::int64_t>();
  if (rows.place_of_row) {
    rows.place_of_row = [place_of = std::move(rows.place_of_row), whole](std::int64_t row) {
      return place_of(whole.const_data_ptr<std::int64_t>()[row]);
    };
  }
  for (at::Tensor* part : {&rows.x, &rows.targets, &rows.weights}) {
    if (part->defined()) *part = part->index_select(0, whole);
  }
  return rows;
}

/// Learns from all rows how to fill in and to scale, and does it to this rank's.
std::unique_ptr<Table> prepared_table(comm::Communicator& group, TableRows rows, const RowLayout& layout,
                                      Preparation preparation, const ReadOptions& how) {
  if (how.preparation.missing == "drop") rows = complete(std::move(rows));
  if (how.like == nullptr) {
    preparation.learn(how.preparation, layout, [&] { return moments(*make_table(group, rows), how.threads); });
  }
  const auto apply = [&]<class T>(T* x) {
    on_threads(how.threads, rows.x.size(0), kRowsAtOnce, [&](std::int64_t begin, std::int64_t end, int) {
      preparation.apply(x + begin * layout.columns(), end - begin, layout.columns());
    });
  };
  if (preparation.changes()) {
    layout.type() == at::kFloat ? apply(rows.x.mutable_data_ptr<float>()) : apply(rows.x.mutable_data_ptr<double>());
  }
  rows.preparation = std::make_shared<const Preparation>(std::move(preparation));
  auto table = make_table(group, std::move(rows));
  if (table->left_out() > 0 && group.rank() == 0) {
    log().info("{} of {} rows are left out, as they have missing values", table->left_out(),
               table->rows() + table->left_out());
  }
  return table;
}

/// Half of what the host has, of each of the ranks there.
std::int64_t fair_memory(comm::Communicator& group) {
  const std::int64_t all = cgroup_memory_limit().value_or(machine().memory_bytes);
  std::int64_t here = 0;
  for (const std::string& host : group.gather_bytes(machine().host)) here += host == machine().host;
  return std::min(all, machine().memory_bytes) / 2 / here;
}

}  // namespace

TableRows read_rows(const data::Dataset& dataset, std::int64_t first, std::int64_t count, const RowLayout& layout,
                    int threads, SweepObserver* observer) {
  TableRows rows;
  rows.x = at::empty({count, layout.columns()}, layout.type());
  if (layout.targets() > 0) rows.targets = at::empty({count, layout.targets()}, at::kDouble);
  if (layout.weighted()) rows.weights = at::empty({count}, at::kDouble);
  rows.names = layout.names();
  rows.target_names = layout.target_names();
  rows.value_names = layout.value_names();
  double* targets = rows.targets.defined() ? rows.targets.mutable_data_ptr<double>() : nullptr;
  double* weights = rows.weights.defined() ? rows.weights.mutable_data_ptr<double>() : nullptr;
  std::vector<data::Sample> samples(static_cast<std::size_t>(threads));
  const Sweep sweep(observer, "reading", count);
  const auto read = [&]<class T>(T* x) {
    on_threads(threads, count, kRowsAtOnce, [&](std::int64_t begin, std::int64_t end, int thread) {
      read_some<T>(
          dataset, first + begin, end - begin, layout,
          {x + begin * layout.columns(), targets + begin * layout.targets(), weights + (layout.weighted() ? begin : 0)},
          samples[static_cast<std::size_t>(thread)]);
      sweep.add(end - begin);
    });
  };
  layout.type() == at::kFloat ? read(rows.x.mutable_data_ptr<float>()) : read(rows.x.mutable_data_ptr<double>());
  return rows;
}

std::unique_ptr<Table> read_table(comm::Communicator& group, const std::string& source,
                                  const data::OpenOptions& options, const ReadOptions& how) {
  how.preparation.check();
  const bool in_parts = source.find("{rank}") != std::string::npos;
  const auto dataset = in_parts ? data::open_part(source, group, options) : data::open(source, options);
  const std::int64_t rows = dataset->size(), ranks = in_parts ? 1 : group.size(), rank = in_parts ? 0 : group.rank();
  Preparation preparation;
  if (how.like != nullptr) {
    preparation = *how.like;
  } else {
    preparation.onehot = how.choice.onehot;
    preparation.ordinal = how.choice.ordinal;
    preparation.categories = find_categories(group, *dataset, rows * rank / ranks, rows * (rank + 1) / ranks,
                                             how.choice, how.threads, how.observer.get());
  }
  const RowLayout layout(*dataset, how.choice, preparation.categories);
  preparation.fields = layout.fields();
  const auto in_memory = [&](std::int64_t first, std::int64_t count) {
    TableRows own = read_rows(*dataset, first, count, layout, how.threads, how.observer.get());
    own.place_of_row = places_in(dataset, first);
    own.observer = how.observer;
    return prepared_table(group, std::move(own), layout, std::move(preparation), how);
  };
  if (in_parts) return in_memory(0, rows);
  if (rows == 0) fail(Fault::Usage, fmt::format("{} has no rows", source));
  const auto plan = BlockPlan::even(rows, layout.columns(), group.size());
  // As if all had as much as the one with most: ranks decide alike.
  std::int64_t most = 0;
  for (std::size_t i = 0; i + 1 < plan.first_block.size(); ++i)
    most = std::max(most, plan.begin(plan.first_block[i + 1]) - plan.begin(plan.first_block[i]));
  const std::int64_t doubles = layout.targets() + (layout.weighted() ? 1 : 0);
  const std::int64_t bytes =
      most * (layout.columns() * static_cast<std::int64_t>(c10::elementSize(layout.type())) + doubles * 8);
  at::Tensor memory = at::empty({1}, at::kLong).fill_(how.memory_bytes > 0 ? how.memory_bytes : fair_memory(group));
  group.all_reduce_(memory, comm::ReduceOp::Min, {.name = "memory of the ranks"}).wait();
  if (bytes > memory.item<std::int64_t>()) {
    if (group.rank() == 0 && !how.keeps_rows) {
      log().info("{} of rows a rank are more than fit into {}: each pass reads them anew", format_bytes(bytes),
                 format_bytes(memory.item<std::int64_t>()));
    }
    if (how.preparation.missing == "drop")
      fail(Fault::Usage, "rows are only left out of a table that fits into memory: fill in by --missing mean");
    if (how.like == nullptr) {
      preparation.learn(how.preparation, layout, [&] {
        return moments(StreamedTable(group, dataset, layout, plan, Preparation(), how.observer), how.threads);
      });
    }
    return std::make_unique<StreamedTable>(group, dataset, layout, plan, preparation, how.observer);
  }
  const std::int64_t first = plan.begin(plan.first_block[static_cast<std::size_t>(group.rank())]);
  const std::int64_t end = plan.begin(plan.first_block[static_cast<std::size_t>(group.rank()) + 1]);
  return in_memory(first, end - first);
}

}  // namespace lockstep::ml
