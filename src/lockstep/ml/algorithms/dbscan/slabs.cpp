#include "lockstep/ml/algorithms/dbscan/slabs.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "lockstep/comm/gather_values.h"
#include "lockstep/core/error.h"

namespace lockstep::ml::dbscan {
namespace {

using comm::Communicator;

/// Values for each rank, `width` for each thing, become those from each rank.
template <class T>
std::vector<T> exchange(Communicator& group, const std::vector<T>& values, const std::vector<std::int64_t>& sends,
                        const std::vector<std::int64_t>& receives, std::int64_t width, const char* name) {
  const auto times = [&](std::vector<std::int64_t> counts) {
    for (auto& count : counts) count *= width;
    return counts;
  };
  const auto type = std::is_same_v<T, double> ? at::kDouble : at::kLong;
  const std::int64_t all = std::accumulate(receives.begin(), receives.end(), std::int64_t{0}) * width;
  at::Tensor input = at::empty({static_cast<std::int64_t>(values.size())}, type), output = at::empty({all}, type);
  std::copy(values.begin(), values.end(), input.mutable_data_ptr<T>());
  group.all_to_all(output, input, times(sends), times(receives), {.name = name}).wait();
  return {output.const_data_ptr<T>(), output.const_data_ptr<T>() + all};
}

/// How many come from each rank.
std::vector<std::int64_t> counts_from(Communicator& group, const std::vector<std::int64_t>& sends) {
  const std::vector<std::int64_t> one(sends.size(), 1);
  return exchange<std::int64_t>(group, sends, one, one, 1, "counts of rows");
}

std::vector<std::int64_t> sizes_of(const std::vector<std::vector<std::int64_t>>& lists) {
  std::vector<std::int64_t> sizes;
  for (const auto& list : lists) sizes.push_back(static_cast<std::int64_t>(list.size()));
  return sizes;
}

/// A point as it travels: its values, number and weight.
class Record {
 public:
  explicit Record(const Table& table) : columns_(table.columns()), weighted_(table.weighted()) {}
  std::int64_t width() const { return columns_ + (weighted_ ? 2 : 1); }

  template <class T>
  void write(const T* x, std::int64_t number, double weight, std::vector<double>& words) const {
    words.insert(words.end(), x, x + columns_);
    words.push_back(static_cast<double>(number));
    if (weighted_) words.push_back(weight);
  }
  void read(const std::vector<double>& words, Points& points) const {
    for (auto next = words.begin(); next != words.end(); next += width()) {
      points.x.insert(points.x.end(), next, next + columns_);
      points.number.push_back(static_cast<std::int64_t>(next[columns_]));
      if (weighted_) points.weight.push_back(next[columns_ + 1]);
    }
  }

 private:
  std::int64_t columns_;
  bool weighted_;
};

/// Calls visit(block, row, place) of this rank's rows, where place is among them.
template <class Visit>
void each_row(const Table& table, const Visit& visit) {
  at::Tensor scratch;
  for (std::int64_t number = table.own_begin(); number < table.own_end(); ++number) {
    const Block block = table.block(number, scratch);
    for (std::int64_t row = 0; row < block.rows; ++row) visit(block, row, table.own_place(number) + row);
  }
}

}  // namespace

Slabs::Slabs(const Table& table, std::int64_t column, double eps) : table_(table) {
  Communicator& group = table.group();
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::int64_t columns = table.columns();
  std::vector<double> values(static_cast<std::size_t>(table.own_rows()));
  with_type_of(table, [&]<class T>(T) {
    each_row(table, [&](const Block& block, std::int64_t row, std::int64_t place) {
      values[static_cast<std::size_t>(place)] = static_cast<double>(block.x<T>()[row * columns + column]);
    });
  });
  choose_edges(values);

  // Rows to their slabs.
  const Record record(table);
  sent_.resize(ranks);
  std::vector<std::vector<double>> words(ranks);
  with_type_of(table, [&]<class T>(T) {
    each_row(table, [&](const Block& block, std::int64_t row, std::int64_t place) {
      const auto slab = static_cast<std::size_t>(slab_of(values[static_cast<std::size_t>(place)]));
      sent_[slab].push_back(place);
      record.write(block.x<T>() + row * columns, block.first + row, block.weight(row), words[slab]);
    });
  });
  const auto joined = [&] {
    std::vector<double> all;
    for (auto& some : words) {
      all.insert(all.end(), some.begin(), some.end());
      some.clear();
    }
    return all;
  };
  received_ = counts_from(group, sizes_of(sent_));
  points_.columns = columns;
  record.read(exchange(group, joined(), sizes_of(sent_), received_, record.width(), "rows of slabs"), points_);
  points_.own = points_.count();

  // Copies to slabs that are near enough.
  copied_.resize(ranks);
  const double most = farthest_in_column(eps);
  const int own = group.rank();
  for (std::int64_t point = 0; point < points_.own; ++point) {
    const double value = points_.at(point)[column];
    const auto copy_to = [&](int rank) {
      copied_[static_cast<std::size_t>(rank)].push_back(point);
      record.write(points_.at(point), points_.number[static_cast<std::size_t>(point)], points_.weight_of(point),
                   words[static_cast<std::size_t>(rank)]);
    };
    for (int rank = own - 1; rank >= 0 && value - edges_[static_cast<std::size_t>(rank)] <= most; --rank) copy_to(rank);
    for (int rank = own + 1; rank < group.size() && edges_[static_cast<std::size_t>(rank) - 1] - value <= most;
         ++rank) {
      copy_to(rank);
    }
  }
  of_others_ = counts_from(group, sizes_of(copied_));
  record.read(exchange(group, joined(), sizes_of(copied_), of_others_, record.width(), "copies of rows"), points_);
  at::Tensor most_points = at::empty({1}, at::kLong);
  most_points.fill_(points_.count());
  group.all_reduce_(most_points, comm::ReduceOp::Max, {.name = "points of a rank"}).wait();
  if (most_points.item<std::int64_t>() > std::numeric_limits<std::int32_t>::max()) {
    fail(Fault::Usage, fmt::format("a rank would have {} rows at once; use more ranks or a smaller eps",
                                   most_points.item<std::int64_t>()));
  }
}

int Slabs::slab_of(double value) const {
  return static_cast<int>(std::upper_bound(edges_.begin(), edges_.end(), value) - edges_.begin());
}

void Slabs::choose_edges(const std::vector<double>& values) {
  // Some values of each rank, each for as many rows; where they lie does not decide what is found.
  constexpr std::size_t kSome = 1024;
  Communicator& group = table_.group();
  const auto ranks = static_cast<std::size_t>(group.size());
  struct Value {
    double value, rows;  // for which it stands
    bool operator<(const Value& other) const { return std::tie(value, rows) < std::tie(other.value, other.rows); }
  };
  std::vector<Value> sample;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t some = std::min(kSome, sorted.size());
  for (std::size_t i = 0; i < some; ++i) {
    sample.push_back({sorted[(2 * i + 1) * sorted.size() / (2 * some)],
                      static_cast<double>(sorted.size()) / static_cast<double>(some)});
  }
  auto all = comm::gather_values(group, sample);
  std::sort(all.begin(), all.end());
  double rows = 0;
  for (const auto& [value, share] : all) {
    rows += share;
    while (edges_.size() + 1 < ranks && rows >= static_cast<double>(table_.rows()) *
                                                    static_cast<double>(edges_.size() + 1) /
                                                    static_cast<double>(ranks)) {
      edges_.push_back(value);
    }
  }
  edges_.resize(ranks - 1, std::numeric_limits<double>::infinity());
}

void Slabs::share(std::vector<std::int64_t>& values) const {
  std::vector<std::int64_t> words;
  for (const auto& points : copied_) {
    for (const std::int64_t point : points) words.push_back(values[static_cast<std::size_t>(point)]);
  }
  const auto others = exchange(table_.group(), words, sizes_of(copied_), of_others_, 1, "values of copies");
  std::copy(others.begin(), others.end(), values.begin() + points_.own);
}

std::vector<std::int64_t> Slabs::of_rows(const std::vector<std::int64_t>& values) const {
  const std::vector<std::int64_t> own(values.begin(), values.begin() + points_.own);
  const auto words = exchange(table_.group(), own, received_, sizes_of(sent_), 1, "values of rows");
  std::vector<std::int64_t> result(static_cast<std::size_t>(table_.own_rows()));
  auto next = words.begin();
  for (const auto& rows : sent_) {
    for (const std::int64_t row : rows) result[static_cast<std::size_t>(row)] = *next++;
  }
  return result;
}

}  // namespace lockstep::ml::dbscan
